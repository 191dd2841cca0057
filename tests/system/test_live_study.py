"""A study of the shipped trainer whose settings are measured in a running job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.light_trainer import MAIN, environment

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(find_spec("chainer") is None, reason="needs the extra `chainer`"),
]

#: Not confirmed: that is launches, as without windows.
STUDY = (
    *("--study", "chainer_mnist", "-n", "2", "--trials", "2", "--fix", "iterator_workers=1"),
    *("--min-gain", "20%", "--no-confirm"),
)


def left_over(folder: Path) -> list[str]:
    """Processes of a launch whose outputs lie below the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and path.parent.name != str(os.getpid()):
            found.append(words)
    return found


def test_one_job_measures_the_settings_of_a_search(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *STUDY, "--live", "on", "--json"],
        cwd=tmp_path,
        env=environment(tmp_path, TUNE_STORAGE=str(tmp_path / "tune.db")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["windows"] > found["jobs"], "a job has measured several settings"
    assert found["launches"] - found["windows"] == 1, "the warm-up"
    assert found["best"]["windows"] == len(found["best"]["samples"]) > 0
    assert "(job 1)" in done.stderr, "the warm-up went on"
    assert left_over(tmp_path) == []
