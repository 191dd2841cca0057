"""What is removed of a trial's folder, and what never is."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.hosts import procfs
from tuner.hosts.supervisor import cleanup


def test_all_that_is_ours_goes_and_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "tune-1"
    (folder / "ompi.host.0" / "jf.1").mkdir(parents=True)
    (folder / "ompi.host.0" / "jf.1" / "file").write_text("x")
    os.mkfifo(folder / "pipe")
    (folder / "closed").mkdir()
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    (folder / "folder").symlink_to(outside)
    (folder / "file").symlink_to(outside / "kept")
    cleanup.remove_folder(str(folder))
    cleanup.remove_folder(str(folder))  # gone already
    assert not folder.exists()
    folder.symlink_to(outside)  # in its place
    cleanup.remove_folder(str(folder))
    assert folder.is_symlink() and (outside / "kept").exists()


def test_somebody_elses_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tune-1"
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    cleanup.remove_folder(str(folder))
    assert folder.is_dir()


def test_a_mount_below_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tune-1"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "kept").touch()
    line = f"36 35 98:0 / {folder}/data rw - ext4 /dev/x rw\n".encode()
    monkeypatch.setattr(cleanup, "read", lambda _: line)
    cleanup.remove_folder(str(folder))
    assert (folder / "data" / "kept").exists()


@pytest.fixture
def segment() -> Iterator[Path]:
    """A new file of ours in the shared memory, called as MPICH's are."""
    path = Path(f"/dev/shm/mpich_shm_litter_{os.getpid()}")
    path.write_bytes(bytes(mmap.PAGESIZE))
    yield path
    path.unlink(missing_ok=True)


def _removed(segment: Path) -> bool:
    """Whether it is removed once it is known to be of the trial."""
    cleanup.remove_segments(cleanup.now() + 100_000)
    assert segment.exists(), "an earlier job's"
    cleanup.remove_segments(cleanup.now() - 100)
    return not segment.exists()


@pytest.mark.parametrize(("mode", "access"), [("r+b", mmap.ACCESS_WRITE), ("rb", mmap.ACCESS_READ)])
def test_a_segment_that_somebody_has_mapped_is_left(segment: Path, mode: str, access: int) -> None:
    with segment.open(mode) as file:
        mapped = mmap.mmap(file.fileno(), 0, access=access)
    with mapped:
        assert not _removed(segment)
    assert _removed(segment)


def test_a_segment_is_left_if_the_kernel_cannot_say(
    segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert not _removed(segment)


def test_a_file_that_is_no_segment_of_an_mpi_is_left(segment: Path) -> None:
    others = segment.rename(segment.with_name(f"of_mine_{segment.name}"))
    try:
        cleanup.remove_segments(cleanup.now() - 100)
        assert others.exists()
    finally:
        others.unlink()


def test_a_signal_never_reaches_a_later_process_of_the_same_id() -> None:
    mine = procfs.stat(os.getpid())
    assert mine is not None
    assert not cleanup.send(mine._replace(started=mine.started - 1), 9)
    assert cleanup.send(mine, 0)
