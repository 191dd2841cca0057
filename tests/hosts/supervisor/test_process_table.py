"""Reading /proc, in the moments in which it says little."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor.table import MARKER, carriers, environment

#: Its main thread ends and another one lives on: /proc calls the process a zombie.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=lambda: (print("up", flush=True), time.sleep(600))).start()
time.sleep(0.2)
ctypes.CDLL(None).pthread_exit(None)
"""

PATIENCE_S = 60.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    env = {MARKER: "of the child"}
    with subprocess.Popen(["sleep", "600"], env=env, text=True) as process:
        yield process
        process.kill()


def looked_up(pid: int) -> Stat:
    found = procfs.stat(pid)
    assert found is not None
    return found


def test_what_is_in_the_middle_of_an_exec_is_seen(child: subprocess.Popen[str]) -> None:
    """The kernel shows no environment then."""
    answers = [b"", b"", b"A=b\0TUNE_TRIAL=mine\0"]
    found = carriers([looked_up(child.pid)], "mine", environ=lambda _: answers.pop(0), wait_s=60)
    assert [each.pid for each in found] == [child.pid]


def test_what_has_no_environment_at_all_is_not_waited_for_long(
    child: subprocess.Popen[str],
) -> None:
    assert carriers([looked_up(child.pid)], "mine", environ=lambda _: b"", wait_s=0.0) == []


def test_neither_the_kernel_nor_what_we_may_not_read_is_waited_for() -> None:
    kernel = Stat(2, 0, 0, kernel=True)
    other = Stat(3, 0, 0)
    answers = {2: b"", 3: None}
    assert carriers([kernel, other], "mine", environ=lambda row: answers[row.pid], wait_s=1e9) == []


def test_what_ends_while_it_is_waited_for_is_forgotten(child: subprocess.Popen[str]) -> None:
    row = looked_up(child.pid)
    child.kill()
    child.wait()
    assert carriers([row], "mine", environ=lambda _: b"", wait_s=1e9) == []


def test_only_the_whole_marker_counts(child: subprocess.Popen[str]) -> None:
    row = looked_up(child.pid)
    for text in (
        b"TUNE_TRIAL=mine2",
        b"TUNE_TRIAL=min",
        b"X_TUNE_TRIAL=mine",
        b"A=TUNE_TRIAL=mine",
    ):
        assert carriers([row], "mine", environ=lambda _, text=text: text) == []  # type: ignore[misc]
    for text in (b"A=1\0TUNE_TRIAL=mine", b"TUNE_SUPERVISES=mine\0"):
        assert carriers([row], "mine", environ=lambda _, text=text: text) == [row]  # type: ignore[misc]


def test_a_process_without_its_main_thread_is_alive() -> None:
    env = {MARKER: "headless"}
    argv = [sys.executable, "-S", "-c", HEADLESS]
    with subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            while (row := looked_up(process.pid)).state != "Z":
                assert process.poll() is None
            assert not row.dead
            assert b"TUNE_TRIAL=headless" in (environment(row) or b"").split(b"\0")
            assert carriers([row], "headless") == [row]
        finally:
            process.kill()
