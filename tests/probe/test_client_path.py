"""A program imports ``tuner.live`` in its launches, in a Python where ``tune`` is not installed."""

from __future__ import annotations

import json
import shutil
import venv
from pathlib import Path

import pytest

from tests.light_trainer import tune
from tests.live_bench import run_rank

#: A loop with a knob of its own. Nothing else that is installed with ``tune`` can be imported.
PROGRAM = """
import importlib.util, json, os, sys, time
from tuner import live
assert importlib.util.find_spec("optuna") is None
session, log, begun_s = live.session(), [], time.monotonic()
session.on("chunk", print)
while len(log) < 30 or session.more():
    time.sleep(0.01)
    log.append({"iteration": len(log) + 1, "elapsed_time": time.monotonic() - begun_s})
    with open(sys.argv[1] + "/draft", "w") as file:
        json.dump(log[:30], file)
    os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/log")
    session.step()
"""

STUDY = """
command = "venv/bin/python train.py {out}"
mpi_procs = 1
live = "on"
trials = 2
confirm = "none"
[knobs.chunk]
env = "CHUNK"
values = [1, 2]
"""

#: Calls what does not need Chainer or PyTorch, as a rank of a study does.
CALLS = """
import sys, types
offered = {}
class Agent:
    offer = staticmethod(lambda names, apply, read=None: offered.update(read()))
class _MultiNodeOptimizer:
    communicator = type("C", (), {"__module__": "chainermn.communicators.naive_communicator"})()
sys.modules["tune_rank_live"] = types.SimpleNamespace(agent=Agent)
from tuner import live
optimizers = {"main": _MultiNodeOptimizer()}
updater = types.SimpleNamespace(get_all_optimizers=lambda: optimizers)
live.ChainerExtension().initialize(types.SimpleNamespace(updater=updater, stop_trigger=None))
live.session().on("chunk", print, read=lambda: 8)
print(offered)
"""


@pytest.mark.system
def test_a_study_measures_live_in_an_environment_without_tune(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "study.toml").write_text(STUDY)
    study = tune(tmp_path, "--study", "study.toml", "--json", TUNE_STORAGE=f"{tmp_path}/tune.db")
    assert study.returncode == 0, study.stderr
    assert json.loads(study.stdout)["windows"] > 1


@pytest.mark.parametrize("minor", range(8, 15))
def test_the_client_runs_in_every_python_since_3_8(minor: int, tmp_path: Path) -> None:
    installed = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")
    python = next(map(str, installed), None) or shutil.which(f"python3.{minor}")
    if python is None:
        pytest.skip(f"there is no Python 3.{minor} here")
    rank = run_rank(tmp_path, CALLS, "-W", "error", python=python)
    expected = "{'communicator': 'naive', 'chunk': 8}\n"
    assert (rank.stdout, rank.stderr) == (expected, "")


def test_a_module_of_that_name_in_the_program_wins(tmp_path: Path) -> None:
    (tmp_path / "tuner.py").write_text("live = 'its own'")
    rank = run_rank(tmp_path, "from tuner import live; print(live)")
    assert (rank.stdout, rank.stderr) == ("its own\n", "")


@pytest.mark.parametrize("version", ["2.7", "3.6"])
def test_an_older_python_runs_as_without_it(version: str, tmp_path: Path) -> None:
    python = next(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), None)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    rank = run_rank(tmp_path, "import tuner", python=str(python))
    assert "No module named" in rank.stderr.splitlines()[-1], rank.stderr
    assert "sitecustomize" not in rank.stderr
