"""Reading /proc, in the moments in which it says little."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor.cleanup import MARKER, carriers, descendants, environment

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


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([b"", b"", b"A=b\0TUNE_TRIAL=mine\0"], True),  # in the middle of an exec
        ([b"A=1\0TUNE_TRIAL=mine"], True),
        ([b"TUNE_SUPERVISES=mine\0"], True),
        ([b"TUNE_TRIAL=mine2"], False),
        ([b"TUNE_TRIAL=min"], False),
        ([b"X_TUNE_TRIAL=mine"], False),
        ([b"A=TUNE_TRIAL=mine"], False),
        ([None], False),  # not ours to read
    ],
)
def test_only_the_whole_marker_counts(
    child: subprocess.Popen[str], answers: list[bytes | None], found: bool
) -> None:
    row = looked_up(child.pid)
    assert carriers([row], "mine", environ=lambda _: answers.pop(0), wait_s=60) == [row] * found


def test_what_has_no_environment_is_waited_for_while_it_lives(child: subprocess.Popen[str]) -> None:
    row = looked_up(child.pid)
    assert carriers([row], "mine", environ=lambda _: b"", wait_s=0.0) == []
    assert carriers([Stat(2, 0, 0, kernel=True)], "mine", environ=lambda _: b"", wait_s=1e9) == []
    child.kill()
    child.wait()
    assert carriers([row], "mine", environ=lambda _: b"", wait_s=1e9) == []


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


@st.composite
def forests(draw: st.DrawFn) -> list[Stat]:
    """Process tables: each process has a parent with a lower id, or 0."""
    size = draw(st.integers(1, 20))
    return [
        Stat(pid, 100 + pid, draw(st.integers(0, pid - 1)), state=draw(st.sampled_from("SZ")))
        for pid in range(1, size + 1)
    ]


@given(table=forests(), root=st.integers(1, 20))
def test_descendants_are_the_live_ones_whose_line_leads_to_the_root(
    table: list[Stat], root: int
) -> None:
    parents = {process.pid: process.parent for process in table}

    def leads_to_root(pid: int) -> bool:
        while pid := parents.get(pid, 0):
            if pid == root:
                return True
        return False

    found = descendants(reversed(table), [root])
    assert {each.pid for each in found} == {
        each.pid for each in table if not each.dead and leads_to_root(each.pid)
    }
    assert len(found) == len(set(found))


def test_descendants_end_where_the_table_is_torn() -> None:
    """A table read while ids are reused may hold a circle."""
    circle = [Stat(2, 1, 3), Stat(3, 1, 2)]
    assert {each.pid for each in descendants(circle, [2])} == {3}
