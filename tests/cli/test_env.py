"""``tune env``."""

from __future__ import annotations

import platform

import pytest

import tuner
from tests.cli.conftest import Tune
from tuner.hosts import interference
from tuner.model import Load


def test_what_a_bug_report_needs_is_printed_and_no_secret(
    tune: Tune, mpirun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interference, "before", lambda: Load(0.0))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("NCCL_API_TOKEN", "7d2ba7c44f1e4f6b8c")
    done = tune("env", "--mpirun", mpirun)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert all(line.startswith("- ") for line in lines)
    assert lines[0].startswith(f"- tuner {tuner.__version__}, Python {platform.python_version()}")
    assert f"- launcher: Open MPI 5.0.11, {mpirun}" in lines
    assert "- OMP_NUM_THREADS=3" in lines
    assert "optuna 5" in done.out and "usable" in done.out
    assert "7d2ba7c44f1e4f6b8c" not in done.out
