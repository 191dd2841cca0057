"""What is exported is used as a user would: run, checked, sourced."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.light_trainer import environment, tune

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def folder(quick_study: Path) -> Path:
    """A folder with the exports of a study."""
    for name in ("job.sh", "best.env", "best.json"):
        assert tune(quick_study, "export", "-o", name).returncode == 0
    return quick_study


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
    assert "task_wrapper" not in (folder / "job.sh").read_text()
    subprocess.run(["sh", "job.sh"], cwd=folder, env=env, check=True)
    assert json.loads((folder / "other" / "got").read_text()) == best(folder)


def test_the_script_is_clean_under_shellcheck(folder: Path, require_program: object) -> None:
    assert callable(require_program)
    path = require_program("shellcheck")
    subprocess.run([path, "--shell=sh", "job.sh"], cwd=folder, check=True)


def test_the_environment_file_is_sourced(folder: Path) -> None:
    script = ["sh", "-c", "set -a; . ./best.env; set +a; exec env"]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=True)
    assert f"OMP_NUM_THREADS={best(folder)[0]}" in done.stdout.splitlines()
