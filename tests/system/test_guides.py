"""The guides from beginning to end, and each ``tune`` command of the README and the documentation.

A study's command is asked for its first launches (``--dry-run``), every other one runs on a real
study. Commands with hosts are in ``tests/hosts/several``, those with a server in ``test_postgres``
and ``test_publish``, those with ``--first-tune`` in ``test_first_tune``, and ``tune scale`` is in
``test_cli``. The guides with ``tune compare`` are run as a whole.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import yaml

from tests.guides import ROOT, TRAIN, blocks, tune_commands
from tests.light_trainer import captured
from tests.marked import eventually
from tuner.cli.app import COMMANDS
from tuner.cli.main import main
from tuner.results.dashboard import web_server
from tuner.store.store import Store

pytestmark = [pytest.mark.system, pytest.mark.slow]


def environment(folder: Path, programs: str = "") -> dict[str, str]:
    """A lock of its own, and these programs and this Python first on ``PATH``."""
    path = f"{programs}{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "TUNE_LOCK_DIR": str(folder)}


def make(folder: Path, length: int, program: str = TRAIN) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(program)
    (folder / "length").write_text(str(length))
    return folder


# --- containers ----------------------------------------------------------------------------

#: Takes the options of `run` and their values off, and runs what follows the image here.
DOCKER = """#!/bin/sh
[ "$1" = run ] || exit 0
while [ "$1" != me/tune ]; do shift; done
shift
exec "$@"
"""

#: Writes down what it is given, and the file on its input.
KUBECTL = """#!/bin/sh
echo "$*" > kubectl.words
cat > kubectl.yaml
"""


def test_the_guide_to_containers_tunes_exports_and_runs_the_job(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("docker", DOCKER), ("kubectl", KUBECTL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    make(tmp_path, 3)
    short = "--trials 1 --no-confirm --knob omp_threads=1,2 --"
    script = "set -e\n" + "".join(blocks("docs/how-to/container.md"))
    script = script.replace("-n 2 --", f"-n 2 {short}")
    done = captured(["sh", "-c", script], tmp_path, environment(tmp_path, f"{programs}:"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "snapshot_3").exists(), "the exported script has run the job"
    assert (tmp_path / "kubectl.words").read_text() == "create -f -\n"
    job = yaml.safe_load((tmp_path / "kubectl.yaml").read_text())
    for replica in job["spec"]["mpiReplicaSpecs"].values():
        (container,) = replica["template"]["spec"]["containers"]
        assert container["image"] == "me/job:1"


def test_the_dockerfile_has_no_complaint_of_hadolint() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = captured([hadolint, "examples/container/Dockerfile"], ROOT, os.environ)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# --- Python --------------------------------------------------------------------------------


def test_the_example_notebook_ends_with_a_result_a_bar_and_a_plot(
    tmp_path: Path, extras: Path
) -> None:
    notebook = tmp_path / "notebook.ipynb"
    notebook.write_text((ROOT / "examples" / "notebook.ipynb").read_text())
    env = environment(tmp_path)
    done = captured([extras / "jupyter-execute", "--inplace", notebook], tmp_path, env)
    assert done.returncode == 0, done.stderr
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    assert {"application/vnd.jupyter.widget-view+json", "image/png"} <= {*chain(*outputs)}
    *_, html = ("".join(data["text/html"]) for data in outputs if "text/html" in data)
    assert "your defaults" in html
    assert (tmp_path / "job.sh").read_text().startswith("#!/bin/sh")


def test_the_pieces_of_the_guide_to_python_run_one_after_the_other(tmp_path: Path) -> None:
    make(tmp_path, 2)
    (tmp_path / "tune.toml").write_text(
        'command = "python train.py --out {out}"\n[knobs.omp_threads]\nrange = "1..2"\n'
    )
    code = "\n".join(blocks("docs/how-to/python.md", "python"))
    code = code.replace("mpi_procs=4", "mpi_procs=1, confirm='none'").replace(
        "trials=", "trials=1+0*"
    )
    code = code.replace("range(1, 9)", "range(1, 3)")
    done = captured([sys.executable, "-c", code], tmp_path, environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "<TuneResult train-n1: " in done.stdout
    assert (tmp_path / "job.sh").exists()


# --- comparisons, of a program that becomes slower -----------------------------------------

SHORT = "--mpi-procs 1 --trials 1 --knob omp_threads=1,2 --"

#: Its steps compute, and its clock goes on in pauses. A program that sleeps is compared in turn.
COMPUTES = (
    TRAIN.replace("done = int(", "begun_s = time.monotonic()\ndone = int(", 1)
    .replace(
        "time.sleep(0.1)",
        "end_s = time.thread_time() + 0.1\n    while time.thread_time() < end_s: pass",
    )
    .replace("0.1 * done", "time.monotonic() - begun_s")
)


def run(folder: Path, commands: str, more: str = SHORT) -> subprocess.CompletedProcess[str]:
    script = "set -e\n" + commands.replace("-- python", f"{more} python")
    return captured(["sh", "-c", script], folder, environment(folder))


def test_both_are_launched_side_by_side(tmp_path: Path) -> None:
    make(tmp_path / "main", 12, COMPUTES)
    make(tmp_path / "branch", 16, COMPUTES)
    commands, *_ = blocks("docs/how-to/compare.md")
    *studies, compare = commands.splitlines()
    # Without a confirmation there is a single launch of each.
    done = run(tmp_path, "\n".join(studies), f"--warm-ups 0 --confirm none {SHORT}")
    assert done.returncode == 0, done.stderr
    argv, env, pipe = shlex.split(compare), environment(tmp_path), subprocess.PIPE
    with subprocess.Popen(argv, cwd=tmp_path, env=env, text=True, stderr=pipe) as cut:
        eventually((tmp_path / "branch-again" / "0001").exists)
        cut.send_signal(signal.SIGINT)
        said = cut.communicate(timeout=60)[1]
    assert cut.returncode == 128 + signal.SIGINT, said
    assert "launches both, as the studies main-again and branch-again" in said
    assert said.rstrip().endswith("tune: interrupted"), "the same command does not continue it"

    done = run(tmp_path, compare)
    assert done.returncode == 6, done.stdout + done.stderr
    assert re.search("(?m)^main .* [0-9]+ side by side$", done.stdout), done.stdout
    assert done.stdout.rstrip().endswith("; worse by more than 5 %")
    with Store.open(f"sqlite:///{tmp_path / 'ci.db'}", create=False) as store:
        best = store.load("main").summary.best_setting
        again, other = (store.launches(f"{name}-again") for name in ("main", "branch"))
        assert len(store.launches("main")) == 2, "the study itself stays as it was"
    assert {record.setting for record in again} == {best}
    sides = [record.outcome.side_by_side for record in (*again, *other)]
    assert sum(side is not None and bool(side.slices) for side in sides) >= 4


# --- agents --------------------------------------------------------------------------------


def test_the_guide_for_agents_tells_a_gain_from_none(tmp_path: Path) -> None:
    page = "docs/how-to/agents.md"
    measure, _, compare = blocks(page)
    (tmp_path / "judge.toml").write_text(blocks(page, "toml")[0])
    for version, steps in (("before", 6_000_000), ("after", 1_000_000)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "train.py").write_text(f"print(sum(range({steps} * 2)))")

    def run_measure(command: str) -> subprocess.CompletedProcess[str]:
        return captured(["sh", "-c", command], tmp_path, environment(tmp_path))

    def judged(command: str) -> tuple[str, dict[str, str]]:
        done = run_measure(command)
        assert done.returncode == 0, done.stderr
        document = json.loads((tmp_path / "result.json").read_text())
        return document["verdict"], document["export"]

    command = measure.splitlines()[0]
    assert judged(command) == ("faster", {"version": "after"})
    (tmp_path / "after" / "train.py").write_bytes((tmp_path / "before" / "train.py").read_bytes())
    refused = run_measure(command)
    assert refused.returncode == 2 and "you edited after/train.py" in refused.stderr
    verdict, export = judged(command.replace("-q", "-q --fresh"))
    assert verdict in {"no gain worth having", "inconclusive"} and export == {}
    *studies, last = compare.splitlines()
    done = run(tmp_path, "\n".join(studies), "--trials 2 --confirm none --")
    assert done.returncode == 0, done.stderr
    done = captured(shlex.split(last), tmp_path, environment(tmp_path))
    assert json.loads(done.stdout)["schema"] == "tuner.compare/1", done.stderr


# --- single commands -----------------------------------------------------------------------

#: What the pages call a program of the reader's.
PROGRAMS = ("benchmark.sh", "gmx", "gmx_mpi", "lulesh", "solver", "torchrun")

#: What other tests run.
ELSEWHERE = "tune compare|tune scale|--first-tune|--host|postgresql:|mlflow|wandb"

#: Those of pages that no other test runs as a whole.
COMMANDS_BY_PAGE = {
    page: [line for line in lines if not re.search(ELSEWHERE, line)]
    for page, lines in tune_commands().items()
    if Path(page).name not in {"agents.md", "compare.md", "slurm.md", "spot.md"}
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reader's programs, and with a finished study."""
    folder = tmp_path_factory.mktemp("documented")
    make(folder, 3)
    (folder / "mnist.py").write_text(TRAIN)
    for name in PROGRAMS:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    (folder / "my_module.py").write_text(
        "from optuna.pruners import NopPruner as MyPruner\n"
        "from optuna.samplers import RandomSampler as MySampler\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        enter(folder, patch)
        job = ("-n", "1", "--knob", "omp_threads=1,2", "--", "python", "train.py", "--out", "{out}")
        assert main(["--name", "NAME", "--no-confirm", *job]) == 0
    return folder


def enter(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    patch.delenv("TUNE_STORAGE", raising=False)
    patch.setenv("PATH", environment(folder, f"{folder}:")["PATH"])


def typed(command: str) -> list[str]:
    """The words of a command, with what a reader fills in."""
    if command.startswith("tune … "):
        own = " --chunk {chunk}" if "chunk" in command else ""
        command = command.replace("…", "-n 2") + f" -- python train.py --out {{out}}{own}"
    for name, value in {"…": "", "STUDY": "NAME"}.items():
        command = command.replace(name, value)
    words = shlex.split(command)[1:]
    if words[0] not in COMMANDS:
        return ["--dry-run", *words]
    return [*words, "--port", "0"] if words[0] == "dashboard" else words


@pytest.mark.parametrize("page", COMMANDS_BY_PAGE)
def test_the_commands_of_a_page_work(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    enter(folder, monkeypatch)
    (folder / "tune.toml").unlink(missing_ok=True)  # `tune init` writes it
    monkeypatch.setattr(web_server.DashboardServer, "serve", lambda self: None)
    for command in COMMANDS_BY_PAGE[page]:
        words = typed(command)
        code = main(words)
        out, err = capfd.readouterr()
        # The verdict of `tune doctor` is that of the machine.
        assert code in ((0, 3) if words[0] == "doctor" else (0,)), (command, out, err)
