"""A study whose signals, terminal or output are not as usual: it ends in order, and keeps all."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import signals
from tests.light_trainer import MAIN, environment, tune

pytestmark = pytest.mark.system

#: Says which signals it ignores, and that it runs.
WAITS = "grep SigIgn /proc/self/status > $0/ignored; touch $0/runs; exec sleep 300"


def start(folder: Path, *, ignored: Sequence[str] = (), **streams: Any) -> subprocess.Popen[bytes]:
    """A study whose only launch waits; signals are ignored as ``nohup`` does it."""
    words = ("-n", "1", "--name", "s", "--objective", "wall", "--knob", "omp_threads=1", "--")
    program = ("sh", "-c", WAITS, str(folder))
    trap = f"trap '' {' '.join(ignored)}; " if ignored else ""
    started = subprocess.Popen(
        ["sh", "-c", f'{trap}exec "$0" -c "$@"', sys.executable, MAIN, *words, *program],
        cwd=folder,
        env=environment(folder),
        **streams,
    )
    while not (folder / "runs").exists():
        assert started.poll() is None
        time.sleep(0.05)
    return started


def test_a_launch_ignores_no_signal_and_a_hangup_ends_no_study_under_nohup(tmp_path: Path) -> None:
    study = start(tmp_path, ignored=("HUP", "INT", "TERM"), stderr=subprocess.PIPE)
    assert signals.of_status((tmp_path / "ignored").read_text(), "SigIgn") == set()
    study.send_signal(signal.SIGHUP)
    study.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        study.wait(0.5)
    study.send_signal(signal.SIGTERM)
    _, said = study.communicate(timeout=60)
    assert study.returncode == 128 + signal.SIGTERM, said
    assert b"the same command continues" in said


def on_terminal(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A study with a terminal of its own, and our end of that."""
    ours, theirs = pty.openpty()
    study = start(folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    return study, ours


def test_a_study_whose_terminal_is_closed_ends_as_by_the_hangup(tmp_path: Path) -> None:
    study, ours = on_terminal(tmp_path)
    os.close(ours)
    study.send_signal(signal.SIGHUP)  # as its shell does
    assert study.wait(60) == 128 + signal.SIGHUP
    shown = tune(tmp_path, "show")
    assert "interrupted by SIGHUP" in shown.stdout


def test_ctrl_c_twice_says_what_is_kept_and_nothing_of_python(tmp_path: Path) -> None:
    study, ours = on_terminal(tmp_path)
    study.send_signal(signal.SIGINT)
    time.sleep(0.2)
    study.send_signal(signal.SIGINT)
    screen = b""
    try:
        while data := os.read(ours, 65536):
            screen += data
    except OSError:  # it has ended
        os.close(ours)
    assert study.wait(60) in (128 + signal.SIGINT, -signal.SIGINT)
    assert b"interrupted" in screen and b"Traceback" not in screen, screen
