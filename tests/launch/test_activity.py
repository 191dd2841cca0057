from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.launch import activity, tracing
from tuner.launch.activity import Activities, Computing, is_own


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/usr/bin/python3.11", True),
        ("/site-packages/numpy.libs/libscipy_openblas64_-1.so", True),
        ("", True),
        ("/lib/x86_64-linux-gnu/libm.so.6", True),
        ("/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so", True),
        ("/opt/libmpimyown/trainer", True),
        ("/lib/x86_64-linux-gnu/libc.so.6", False),
        ("/lib/libc-2.31.so", False),
        ("/lib/ld-linux-x86-64.so.2", False),
        ("[vdso]", False),
        ("/venv/lib/libmpi.so.40", False),
        ("/venv/lib/libopen-pal.so.80", False),
        ("/lib/openmpi/mca_btl_sm.so", False),
        ("/lib/libmpich.so.12", False),
        ("/lib/libfabric.so.1", False),
        ("/lib/libucp.so.0", False),
        ("/lib/libgomp.so.1", False),
    ],
)
def test_waiting_is_told_from_computing_by_the_code(path: str, own: bool) -> None:
    assert is_own(path) is own


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    code = "print(1, flush=True)\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_process_of_ones_own_is_read() -> None:
    (found,) = Activities()({os.getpid(): 3, 2**22 + 1: None})
    assert (found.pid, found.rank, found.state) == (os.getpid(), 3, "R")
    assert found.cpu_s > 0 and found.started > 0 and found.transfers > 0
    assert found.name == Path("/proc/self/comm").read_text().strip()


def test_a_program_that_loops_computes(busy: subprocess.Popen[str]) -> None:
    assert Computing()([busy.pid]) is True


def test_who_sleeps_or_is_gone_does_not_compute() -> None:
    code = "print(1, flush=True)\nimport time; time.sleep(600)"
    nap = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert nap.stdout is not None and nap.stdout.readline()
    try:
        assert Computing()([nap.pid, 2**22 + 1]) is False
    finally:
        nap.kill()
        nap.wait()


def test_without_ptrace_a_share_of_kernel_time_tells(
    busy: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(tracing, "program_counter", refuse)
    computing = Computing()
    assert computing([busy.pid]) is True
    code = "import os\nprint(1, flush=True)\nwhile True: os.sched_yield()"
    yields = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert yields.stdout is not None and yields.stdout.readline()
    try:
        computing([yields.pid])  # its start, which computes
        answers = []
        for _ in range(5):
            spent(yields.pid, 0.3)
            answers.append(computing([yields.pid]))
    finally:
        yields.kill()
        yields.wait()
    assert answers.count(False) >= 3, answers


def test_a_look_ends_in_time_and_the_next_sees_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty threads that spin in MPI and get no CPU to stop on, one computes."""
    now_s = 0.0
    asked: list[int] = []

    def slow(thread: int) -> int:
        nonlocal now_s
        now_s += 0.25
        asked.append(thread)
        return thread

    monkeypatch.setattr(activity, "_running", lambda _: range(40))
    monkeypatch.setattr(
        activity, "_mapped", lambda _, address: "a" if address == 7 else "libmpi.so"
    )
    monkeypatch.setattr(tracing, "program_counter", slow)
    computing = Computing(0.5, clock=lambda: now_s)
    answers = []
    for _ in range(400):
        before_s = now_s
        answers.append(computing([os.getpid()]))
        assert now_s - before_s <= 0.75
    assert True in answers and False in answers
    assert set(asked) == set(range(40))


def spent(pid: int, least_s: float) -> None:
    """Wait until a process has used so much CPU time more."""
    start_s = cpu_s(pid)
    while cpu_s(pid) < start_s + least_s:
        time.sleep(0.02)


def cpu_s(pid: int) -> float:
    (found,) = Activities()({pid: None})
    return found.cpu_s


def test_a_foreign_procfs_gives_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    for text in (b"", b"7 (a b) S", b"7 (x) S 1 2 3 4 5 6 7 a b c d 1 1 1 1 1 1 1 1"):
        (folder / "stat").write_bytes(text)
        assert Activities(str(tmp_path))({7: 0}) == []
    line = b"7 (a ) b) D " + b" ".join(str(n).encode() for n in range(4, 40))
    (folder / "stat").write_bytes(line)
    (folder / "io").write_bytes(b"rchar: 5\nwchar: 7\nsyscr: 9\nread_bytes: 1\nwrite_bytes: 0\n")
    (found,) = Activities(str(tmp_path))({7: None})
    assert (found.state, found.transfers) == ("D", 13 + 12)
