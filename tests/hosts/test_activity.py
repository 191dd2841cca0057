"""Who of a job computes, who waits, who only looks as if it did, and its stacks if it hangs."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from tests.host_files import plant
from tests.marked import eventually
from tuner.hosts import activity, procfs, stacks
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
def test_who_loops_computes_and_all_go_on_as_before(code: str, number: int, letter: str) -> None:
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
    looks = ((1.0, 9.0), (1.1, 9.5), (2.0, 9.6))  # CPU time of the program, of the kernel
    stats = [SimpleNamespace(user_s=user_s, system_s=system_s) for user_s, system_s in looks]
    monkeypatch.setattr(activity, "program_counter", Mock(side_effect=PermissionError))
    monkeypatch.setattr(activity, "running_threads", lambda _: [1])
    monkeypatch.setattr("tuner.hosts.activity.procfs.stat", Mock(side_effect=stats))
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


#: Says with what it was called; refuses process 2, and process 3 unless it need not stop it.
PY_SPY = """#!/bin/sh
printf 'Process 7: python x.py --password hunter2\\nmore\\nPython v3.11 (/p)\\n'
case "$*" in "dump --pid 3" | *2) echo "not allowed" >&2; exit 1 ;; esac
"""


def test_stacks_are_files_for_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = SimpleNamespace(executable=str(tmp_path / "python"))
    monkeypatch.setattr("tuner.hosts.stacks.sys", ours)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "py-spy is not installed" in stacks.take({1: 0})["rank-0.txt"]
    (tmp_path / "py-spy").write_text(PY_SPY)
    (tmp_path / "py-spy").chmod(0o755)
    folder = tmp_path / "stacks"
    said = stacks.keep(folder, stacks.take({11: 0, 2: 1, 3: 0, 10: None}))
    assert said == f"stacks in {folder}"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    how = texts.pop("rank-1.txt")
    for part in ("not allowed", "process 2", "runtime-tuner[stacks]", "ptrace_scope"):
        assert part in how
    assert texts.keys() == {"rank-0.txt", "rank-0-worker-11.txt"}
    assert not any("hunter2" in text for text in texts.values())
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    assert stacks.keep(tmp_path / "file", {"rank-0.txt": ""}).startswith("no stacks: ")
