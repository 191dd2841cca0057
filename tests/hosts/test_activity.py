"""What processes do: who computes, who waits, and who only looks as if it did."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.host_files import plant
from tests.marked import eventually
from tuner.hosts import activity, procfs
from tuner.hosts.activity import THREAD_NAME, ComputeDetector, is_own, transfers


def test_waiting_is_told_from_computing_by_the_code() -> None:
    for path in (
        "/usr/bin/python3.11", "/numpy.libs/libscipy_openblas64_-1.so", "", "/lib/libm.so.6",
        "/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so", "/opt/libmpimyown/trainer",
    ):  # fmt: skip
        assert is_own(path), path
    for path in (
        "/lib/libc.so.6", "/lib/libc-2.31.so", "/lib/ld-linux-x86-64.so.2", "[vdso]",
        "/venv/lib/libmpi.so.40", "/venv/lib/libopen-pal.so.80", "/lib/openmpi/mca_btl_sm.so",
        "/lib/libmpich.so.12", "/lib/libfabric.so.1", "/lib/libucp.so.0", "/lib/libgomp.so.1",
    ):  # fmt: skip
        assert not is_own(path), path


@pytest.mark.parametrize(
    ("code", "number", "letter"),
    [
        ("while True: pass", 0, "R"),
        ("import time; time.sleep(600)", 0, "S"),
        ("while True: pass", signal.SIGSTOP, "T"),
    ],
)
def test_who_loops_computes_and_whoever_was_looked_at_goes_on_as_before(
    code: str, number: int, letter: str
) -> None:
    argv = [sys.executable, "-c", f"print(1, flush=True)\n{code}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        os.kill(process.pid, number)

        def is_as_before() -> bool:
            stat = procfs.stat(process.pid)
            return stat is not None and stat.state == letter

        eventually(is_as_before)
        if letter == "R":  # beside other load it may have no core at once
            eventually(lambda: ComputeDetector().any_computes([process.pid]))
        else:
            assert not ComputeDetector().any_computes([process.pid, 2**22 + 1])
        eventually(is_as_before)
        process.kill()


def test_without_ptrace_a_share_of_kernel_time_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    looks = iter([(1.0, 9.0), (1.1, 9.5), (2.0, 9.6)])  # CPU time of the program, of the kernel

    def stat(_: int) -> SimpleNamespace:
        user_s, system_s = next(looks)
        return SimpleNamespace(user_s=user_s, system_s=system_s)

    monkeypatch.setattr(activity, "program_counter", refuse)
    monkeypatch.setattr(activity, "running_threads", lambda _: [1])
    monkeypatch.setattr("tuner.hosts.activity.procfs.stat", stat)
    detector = ComputeDetector()
    assert [detector.any_computes([1]) for _ in range(3)] == [False, False, True]


def test_what_our_thread_in_a_rank_moves_counts_nothing(tmp_path: Path) -> None:
    io = "rchar: {}\nwchar: 2\nsyscr: 100\nread_bytes: 3\nwrite_bytes: 4\ncancelled: 0\n"
    plant(tmp_path, {"7/io": io.format(2000)})  # 989 of a child or thread that has ended
    for thread, name, read in ((7, "python", 1000), (8, THREAD_NAME.decode(), 1), (9, "io", 1)):
        folder = f"7/task/{thread}"
        plant(tmp_path, {f"{folder}/comm": f"{name}\n", f"{folder}/io": io.format(read)})
    assert transfers(7, str(tmp_path)) == 2009 - 10
    assert transfers(8, str(tmp_path)) == 0
