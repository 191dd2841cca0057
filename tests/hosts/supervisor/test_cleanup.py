"""How what is left of a trial is found, and what of it is removed."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marked import eventually
from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor import cleanup
from tuner.hosts.supervisor.cleanup import MARKER, carriers, descendants

# --- files -------------------------------------------------------------------------------


def test_all_that_is_ours_goes_and_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "tune-1"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    os.mkfifo(folder / "pipe")
    (folder / "folder").symlink_to(outside)
    (folder / "file").symlink_to(outside / "kept")
    cleanup.remove_folder(str(folder))
    assert not folder.exists()
    folder.symlink_to(outside)  # in its place
    cleanup.remove_folder(str(folder))
    assert folder.is_symlink() and (outside / "kept").exists()


@pytest.mark.parametrize(("mode", "access"), [("r+b", mmap.ACCESS_WRITE), ("rb", mmap.ACCESS_READ)])
def test_a_segment_of_an_mpi_goes_unless_it_is_older_or_somebody_has_mapped_it(
    monkeypatch: pytest.MonkeyPatch, mode: str, access: int
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
        with segment.open(mode) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=access)
        with mapped:
            cleanup.remove_segments(cleanup.now() - 100)
            assert segment.exists()
        cleanup.remove_segments(cleanup.now() - 100)
        assert not segment.exists() and other.exists()
    finally:
        segment.unlink(missing_ok=True)
        other.unlink()


# --- processes ---------------------------------------------------------------------------


@pytest.fixture
def child() -> Iterator[Stat]:
    with subprocess.Popen(["sleep", "600"], env={MARKER: "of the child"}) as process:
        stat = procfs.stat(process.pid)
        assert stat is not None
        yield stat
        process.kill()


@pytest.mark.parametrize(
    ("answers", "is_found"),
    [
        ([b"", b"", b"A=b\0TUNE_TRIAL=mine\0"], True),  # in the middle of an exec
        ([b"A=1\0TUNE_TRIAL=mine"], True),
        ([b"TUNE_TRIAL=mine.7\0"], True),  # a launch of the study
        ([b"TUNE_SUPERVISES=mine\0"], True),
        ([b"TUNE_TRIAL=mine2"], False),
        ([b"TUNE_TRIAL=min"], False),
        ([b"X_TUNE_TRIAL=mine"], False),
        ([b"A=TUNE_TRIAL=mine"], False),
        ([None], False),  # not ours to read
    ],
)
def test_only_the_whole_marker_counts(
    child: Stat, answers: list[bytes | None], is_found: bool
) -> None:
    matches = carriers([child], "mine", environ=lambda _: answers.pop(0), wait_s=60)
    assert matches == [child] * is_found


def test_what_shows_no_environment_is_waited_for_only_while_it_may_get_one(child: Stat) -> None:
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
        assert stat is not None and carriers([stat], "mine") == [stat]
        process.kill()


def test_a_signal_never_reaches_a_later_process_of_the_same_id(child: Stat) -> None:
    assert not cleanup.send(child._replace(started=child.started - 1), 9)
    assert cleanup.send(child, 0)
