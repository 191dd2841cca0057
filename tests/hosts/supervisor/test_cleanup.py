"""How what is left of a trial is found, and what of it is removed."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marked import eventually
from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor import cleanup
from tuner.hosts.supervisor.cleanup import MARKER, carriers, descendants


def test_all_that_is_ours_goes_and_no_link_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    kept = tmp_path / "outside/kept"
    kept.touch()
    folder = tmp_path / "tune-1"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    os.mkfifo(folder / "pipe")
    (folder / "folder").symlink_to(kept.parent)
    (folder / "file").symlink_to(kept)
    with monkeypatch.context() as patch:
        line = f"36 35 98:0 / {folder}/closed rw - ext4 /dev/x rw\n".encode()
        patch.setattr(cleanup, "read", lambda _: line)
        cleanup.remove_folder(str(folder))
        assert folder.exists(), "something is mounted below it"
    cleanup.remove_folder(str(folder))
    assert not folder.exists()
    folder.symlink_to(kept.parent)  # in its place
    cleanup.remove_folder(str(folder))
    assert folder.is_symlink() and kept.exists()


@pytest.mark.parametrize("access", [mmap.ACCESS_WRITE, mmap.ACCESS_READ])
def test_a_segment_of_an_mpi_goes_unless_it_is_older_or_somebody_has_mapped_it(
    monkeypatch: pytest.MonkeyPatch, access: int
) -> None:
    name = f"/dev/shm/tune_test_{os.getpid()}"
    # An MPI's own name would be swept by the launches of other tests.
    monkeypatch.setattr(cleanup, "_SEGMENTS", (f"{name}_",))
    segment, other = Path(f"{name}_1"), Path(name)
    for path in (segment, other):
        path.write_bytes(bytes(mmap.PAGESIZE))
    try:
        cleanup.remove_segments(cleanup.now() + 100_000)
        assert segment.exists(), "an earlier job's"
        with segment.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=access)
        with mapped:
            cleanup.remove_segments(cleanup.now() - 100)
            assert segment.exists()
        cleanup.remove_segments(cleanup.now() - 100)
        assert not segment.exists() and other.exists()
    finally:
        segment.unlink(missing_ok=True)
        other.unlink()


@pytest.fixture
def child() -> Iterator[Stat]:
    with subprocess.Popen(["sleep", "600"], env={MARKER: "of the child"}) as process:
        stat = procfs.stat(process.pid)
        assert stat is not None
        yield stat
        process.kill()


def test_what_shows_no_environment_is_waited_for_only_while_it_may_get_one(child: Stat) -> None:
    answers = [b"", b"", b"A=b\0TUNE_TRIAL=mine\0"]  # in the middle of an exec
    assert carriers([child], "mine", environ=lambda _: answers.pop(0), wait_s=60) == [child]
    assert carriers([child], "mine", environ=lambda _: b"A=TUNE_TRIAL=mine") == []
    assert carriers([child], "mine", environ=lambda _: b"", wait_s=0.0) == []
    for other in (Stat(2, 0, 0, kernel=True), child._replace(started=1)):
        assert carriers([other], "mine", environ=lambda _: b"", wait_s=1e9) == []


def test_a_process_whose_main_thread_has_ended_is_known_by_another() -> None:
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start();"
        " ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", code], env={MARKER: "mine"}) as process:
        eventually(lambda: (stat := procfs.stat(process.pid)) is not None and stat.state == "Z")
        stat = procfs.stat(process.pid)
        found = [] if stat is None else carriers([stat], "mine")
        process.kill()
    assert found == [stat]


def test_descendants_are_alive_also_in_a_table_with_a_circle() -> None:
    table = [Stat(pid, 100 + pid, parent) for pid, parent in ((1, 6), (2, 1), (3, 2), (6, 1))]
    # The main thread of a zombie may have ended before the others.
    table += [Stat(4, 104, 3, state="Z"), Stat(5, 105, 4, state="Z", threads=2)]
    assert sorted(process.pid for process in descendants(table, [1])) == [2, 3, 5, 6]


def test_a_signal_never_reaches_a_later_process_of_the_same_id(child: Stat) -> None:
    assert not cleanup.send(child._replace(started=child.started - 1), 9)
    assert cleanup.send(child, 0)
