"""How what is left of a trial is found, and what of it is removed."""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts import procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor import cleanup
from tuner.hosts.supervisor.cleanup import MARKER, carriers, descendants, environment

# --- files -------------------------------------------------------------------------------


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
def segment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new file of ours in the shared memory; an MPI's would be swept by other tests' launches."""
    path = Path(f"/dev/shm/tune_test_{os.getpid()}")
    monkeypatch.setattr(cleanup, "_SEGMENTS", (str(path),))
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


# --- processes ---------------------------------------------------------------------------

#: Its main thread ends and another one lives on: /proc calls the process a zombie.
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=lambda: (print("up", flush=True), time.sleep(600))).start()
time.sleep(0.2)
ctypes.CDLL(None).pthread_exit(None)
"""


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
def tables(draw: st.DrawFn) -> list[Stat]:
    """Process tables; one that is read while ids are reused may hold a circle."""
    size = draw(st.integers(1, 20))
    parents = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size))
    return [
        Stat(pid, 100 + pid, parent, state=draw(st.sampled_from("SZ")))
        for pid, parent in enumerate(parents, start=1)
    ]


@given(table=tables(), root=st.integers(1, 20))
def test_descendants_are_the_live_ones_whose_line_leads_to_the_root(
    table: list[Stat], root: int
) -> None:
    parents = {process.pid: process.parent for process in table}

    def leads_to_root(pid: int) -> bool:
        line = [pid]
        while (pid := parents.get(pid, 0)) and pid not in line:
            if pid == root:
                return True
            line.append(pid)
        return False

    found = descendants(reversed(table), [root])
    assert sorted(each.pid for each in found) == [
        each.pid for each in table if each.pid != root and not each.dead and leads_to_root(each.pid)
    ]


def test_a_signal_never_reaches_a_later_process_of_the_same_id() -> None:
    mine = procfs.stat(os.getpid())
    assert mine is not None
    assert not cleanup.send(mine._replace(started=mine.started - 1), 9)
    assert cleanup.send(mine, 0)
