"""A launch that is paused stands still with all its processes, and goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marked import PATIENCE_S, eventually
from tuner.hosts import process, procfs
from tuner.model import Launch

#: Each of two processes, one of which is a new one every time, adds a byte to its file.
BUSY = "( while :; do printf x >> own; done ) & while :; do /bin/sh -c 'printf x >> others'; done"

Start = Callable[[str], process.SupervisedCommand]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    trials: list[process.SupervisedCommand] = []

    def start(script: str) -> process.SupervisedCommand:
        launch = Launch(("sh", "-c", script), os.environ, tmp_path, tmp_path / "out", tmp_path)
        trials.append(process.start(launch))
        return trials[-1]

    yield start
    for trial in trials:
        trial.stop()


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in (folder / "own", folder / "others") if path.exists()]


def states(pids: tuple[int, ...]) -> list[str]:
    stats = [procfs.stat(pid) for pid in pids]
    return [stat.state for stat in stats if stat is not None and not stat.dead]


def test_all_its_processes_stand_still_and_go_on(tmp_path: Path, start: Start) -> None:
    def grows_from(before: list[int]) -> None:
        eventually(lambda: len(now := sizes(tmp_path)) == 2 and all(map(int.__gt__, now, before)))

    trial = start(BUSY)
    for _ in range(3):
        grows_from(sizes(tmp_path))
        trial.pause()
        trial.pause()  # it is paused
        still = sizes(tmp_path)
        time.sleep(0.2)
        assert sizes(tmp_path) == still
        trial.resume()
        grows_from(still)
    assert trial.poll() is None


def test_only_the_time_in_which_it_ran_counts(start: Start) -> None:
    """As the limits of a launch do."""
    trial = start("sleep 0.2; exit 3")
    trial.pause()
    before_s = trial.running_s()
    time.sleep(0.5)
    assert trial.running_s() - before_s < 0.001
    trial.resume()
    ended = trial.wait(PATIENCE_S)
    ((begin_s, end_s),) = trial.pauses()
    assert ended is not None and ended.code == 3 and end_s - begin_s >= 0.5
    assert ended.wall_s <= trial.running_s()


@pytest.mark.parametrize("end", ["it is stopped", "its command is killed", "its supervisor is"])
def test_whatever_ends_in_a_pause_has_ended(start: Start, end: str) -> None:
    trial = start(BUSY)
    pids = trial.pids()
    trial.pause()
    command = procfs.stat(trial.pid)
    assert command is not None
    if end == "it is stopped":
        assert trial.stop().stopped
    else:
        os.kill(command.parent if end == "its supervisor is" else command.pid, signal.SIGKILL)
    trial.resume()  # harmless
    assert trial.wait(PATIENCE_S) is not None and states(pids) == []


def test_what_had_stopped_itself_stays_stopped(start: Start) -> None:
    trial = start("sleep 60 & kill -STOP $!; wait")
    eventually(lambda: "T" in states(trial.pids()))
    trial.pause()
    trial.resume()
    eventually(lambda: sorted(states(trial.pids())) == ["S", "T"])


PAUSES = """
import os, sys
from pathlib import Path
from tuner.hosts import process
from tuner.model import Launch
folder = Path(sys.argv[1])
trial = process.start(Launch(("sh", "-c", sys.argv[2]), os.environ, folder, folder / "out", folder))
trial.pause()
print(*trial.pids(), flush=True)
sys.stdin.read()
"""


def test_a_tune_that_is_killed_in_a_pause_leaves_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PAUSES, str(tmp_path), BUSY]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tune:
        assert tune.stdout is not None
        pids = tuple(map(int, tune.stdout.readline().split()))
        assert states(pids)
        tune.kill()
    eventually(lambda: not states(pids))
