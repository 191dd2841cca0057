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

from tuner.hosts import process, procfs
from tuner.hosts.supervisor import cgroup
from tuner.hosts.supervisor.serving import PAUSE
from tuner.model import Launch

PATIENCE_S = 30.0

#: Each of two processes, one of which is a new one every time, adds a byte to its file.
BUSY = "( while :; do printf x >> own; done ) & while :; do /bin/sh -c 'printf x >> others'; done"


def places() -> list[str]:
    """With the freezer of a control group, if one can be made here, and without."""
    group = cgroup.Cgroup(cgroup.place_for(f"tune-test-{os.getpid()}"))
    group.make()
    group.remove()
    return ["group", "signals"] if group.path else ["signals"]


@pytest.fixture(params=places())
def start(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], process.RunningTrial]]:
    if request.param == "signals":
        monkeypatch.setattr(process, "place_for", lambda _: "")
    trials: list[process.RunningTrial] = []

    def start(script: str) -> process.RunningTrial:
        argv = ("sh", "-c", script)
        launch = Launch(argv, os.environ, tmp_path, tmp_path / "out", tmp_path)
        trials.append(process.start(launch))
        return trials[-1]

    yield start
    for trial in trials:
        trial.stop()


def until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in (folder / "own", folder / "others") if path.exists()]


def alive(pids: tuple[int, ...]) -> list[int]:
    stats = [procfs.stat(pid) for pid in pids]
    return [stat.pid for stat in stats if stat is not None and not stat.dead]


def test_all_its_processes_stand_still_and_go_on(
    tmp_path: Path, start: Callable[[str], process.RunningTrial]
) -> None:
    def grows_from(before: list[int]) -> None:
        until(lambda: len(now := sizes(tmp_path)) == 2 and all(map(int.__gt__, now, before)))

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


def test_only_the_time_in_which_it_ran_counts(start: Callable[[str], process.RunningTrial]) -> None:
    trial = start("sleep 0.2; exit 3")
    trial.pause()
    before_s = trial.running_s()
    time.sleep(1.0)
    assert trial.running_s() - before_s < 0.001
    trial.resume()
    ended = trial.wait(PATIENCE_S)
    ((begin_s, end_s),) = trial.pauses()
    assert ended is not None and ended.code == 3 and end_s - begin_s >= 1.0
    assert ended.wall_s <= trial.running_s()


def test_it_is_ended_though_it_is_paused(start: Callable[[str], process.RunningTrial]) -> None:
    trial = start(BUSY)
    pids = trial.pids()
    trial.pause()
    ended = trial.stop()
    assert ended.stopped and alive(pids) == []
    trial.pause()
    trial.resume()  # harmless


def test_a_pause_whose_answer_nobody_took_is_no_end(
    start: Callable[[str], process.RunningTrial],
) -> None:
    trial = start(BUSY)
    trial.forward(PAUSE)  # as if an interrupt had come before the answer
    until(lambda: trial.wait(0.0) is None)
    assert trial.stop().stopped


def test_what_ends_in_a_pause_has_ended(start: Callable[[str], process.RunningTrial]) -> None:
    trial = start("sleep 60")
    trial.pause()
    os.kill(trial.pid, signal.SIGKILL)
    ended = trial.wait(PATIENCE_S)
    trial.resume()
    assert ended is not None and ended.code == -signal.SIGKILL


def test_what_had_stopped_itself_stays_stopped(
    start: Callable[[str], process.RunningTrial],
) -> None:
    trial = start("sleep 60 & kill -STOP $!; wait")
    until(lambda: "T" in [procfs.stat(pid).state for pid in trial.pids()])  # type: ignore[union-attr]
    trial.pause()
    trial.resume()
    states = [procfs.stat(pid).state for pid in trial.pids()]  # type: ignore[union-attr]
    assert "T" in states and len(states) == 2


def test_a_supervisor_that_is_killed_in_a_pause_leaves_nothing(
    start: Callable[[str], process.RunningTrial],
) -> None:
    trial = start(BUSY)
    pids = trial.pids()
    trial.pause()
    supervisor = procfs.stat(trial.pid)
    assert supervisor is not None
    os.kill(supervisor.parent, signal.SIGKILL)
    trial.resume()
    assert trial.wait(PATIENCE_S) is not None and alive(pids) == []


PAUSES = """
import os, sys
from pathlib import Path
from tuner.hosts import process
from tuner.model import Launch
if sys.argv[2] == "signals":
    process.place_for = lambda _: ""
folder = Path(sys.argv[1])
trial = process.start(Launch(("sh", "-c", sys.argv[3]), os.environ, folder, folder / "out", folder))
trial.pause()
print(*trial.pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("place", places())
def test_a_tune_that_is_killed_in_a_pause_leaves_nothing(tmp_path: Path, place: str) -> None:
    argv = [sys.executable, "-c", PAUSES, str(tmp_path), place, BUSY]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tune:
        assert tune.stdout is not None
        pids = tuple(map(int, tune.stdout.readline().split()))
        assert alive(pids)
        tune.kill()
    until(lambda: not alive(pids))
