"""What is exported is used as a user would: run, sourced, read."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.light_trainer import QUICK, command, environment, make_folder, tune

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name where a study was made and its best setting exported."""
    found = make_folder(tmp_path_factory.mktemp("exports") / "my work")
    done = tune(found, *QUICK, "--trials", "4", *command())
    assert done.returncode == 0, done.stderr
    for name in ("job.sh", "best.env", "best.json", "table.csv", "table.md"):
        assert tune(found, "export", "-o", name).returncode == 0
    return found


def best(folder: Path) -> list[int]:
    """Threads and workers of the best setting."""
    setting = json.loads((folder / "best.json").read_text())["best"]["setting"]
    return [setting["omp_threads"], setting["iterator_workers"]]


def test_the_script_trains_with_the_best_setting(folder: Path) -> None:
    subprocess.run(["./job.sh", "res ult"], cwd=folder, env=environment(folder), check=True)
    assert json.loads((folder / "res ult" / "got").read_text()) == best(folder)
    assert len(json.loads((folder / "res ult" / "log").read_text())) == 5


def test_the_script_needs_no_tune_and_little_of_the_environment(folder: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "OUT": "other"}
    text = (folder / "job.sh").read_text()
    assert "task_wrapper" not in text
    subprocess.run(["sh", "job.sh"], cwd=folder, env=env, check=True)
    assert json.loads((folder / "other" / "got").read_text()) == best(folder)


def test_the_script_is_clean_under_shellcheck(folder: Path, require_program: object) -> None:
    assert callable(require_program)
    path = require_program("shellcheck")
    subprocess.run([path, "--shell=sh", "job.sh"], cwd=folder, check=True)


def test_the_environment_file_is_sourced(folder: Path) -> None:
    script = "set -a; . ./best.env; set +a; exec env"
    done = subprocess.run(
        ["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    assert f"OMP_NUM_THREADS={best(folder)[0]}" in done.stdout.splitlines()


def test_the_arguments_are_those_of_the_best_setting(folder: Path) -> None:
    done = tune(folder, "export", "--format", "args")
    assert shlex.split(done.stdout) == ["-j", str(best(folder)[1])]
    assert "cannot carry omp_threads" in done.stderr


def test_json_has_every_launch(folder: Path) -> None:
    document = json.loads((folder / "best.json").read_text())
    launches = document["launches"]
    assert len(launches) == document["result"]["launches"] > 5
    for launch in launches:
        state = launch["ending"]["state"]
        assert state in ("finished", "stopped")
        assert bool(launch["samples"]) == (state == "finished")
        if state == "finished":  # what is stopped may end by itself in that moment
            assert launch["exit_code"] == 0
    assert document["result"]["verdict"] == "faster"


def test_tables_have_a_row_for_each_setting(folder: Path) -> None:
    assert len((folder / "table.csv").read_text().splitlines()) == 6
    rows = [line for line in (folder / "table.md").read_text().splitlines() if line[:1] == "|"]
    assert len(rows) == 7
