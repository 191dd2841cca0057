from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts.probe_thread import NAME, ProbeThreads, transferred

IO = "rchar: {}\nwchar: 2\nsyscr: 100\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 0\n"


def thread(proc: Path, tid: int, name: bytes, read: int) -> None:
    folder = proc / "7" / "task" / str(tid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comm").write_bytes(name + b"\n")
    (folder / "io").write_text(IO.format(read))


def test_only_our_thread_counts(tmp_path: Path) -> None:
    thread(tmp_path, 7, b"python", 1000)
    thread(tmp_path, 8, NAME, 1)
    probes = ProbeThreads(str(tmp_path))
    assert probes.transfers(7) == 1 + 2 + 3 + 4
    thread(tmp_path, 8, NAME, 11)
    assert probes.transfers(7) == 20


def test_a_thread_that_names_itself_late_is_found(tmp_path: Path) -> None:
    thread(tmp_path, 8, b"python", 1)
    probes = ProbeThreads(str(tmp_path))
    assert probes.transfers(7) == 0
    thread(tmp_path, 8, NAME, 1)
    assert probes.transfers(7) == 10


@given(late=st.integers(1, 60))
def test_however_late_it_is_it_is_found_within_as_many_looks_again(late: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        proc = Path(folder)
        thread(proc, 8, b"python", 1)
        probes = ProbeThreads(str(proc))
        assert [probes.transfers(7) for _ in range(late)] == [0] * late
        thread(proc, 8, NAME, 1)
        assert [probes.transfers(7) for _ in range(late + 1)][-1] == 10


def test_what_is_gone_has_moved_nothing(tmp_path: Path) -> None:
    assert ProbeThreads(str(tmp_path)).transfers(7) == 0
    assert transferred(b"") == 0
