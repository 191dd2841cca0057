"""`tune` and its supervisor are killed together: the next owner of the lock ends what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.marked import PATIENCE_S, alive, eventually
from tuner.hosts import lock, process, procfs
from tuner.hosts.process import left_over
from tuner.hosts.supervisor import cleanup
from tuner.model import Launch

pytestmark = pytest.mark.system

#: A `tune` that holds the lock and has a launch in flight.
MEASURING = """
import os, sys, time
from pathlib import Path
from tuner.hosts import lock, process
from tuner.model import Launch
folder = Path(sys.argv[1])
with lock.measuring("theirs", environ=os.environ) as note:
    launch = Launch(("sh", "-c", sys.argv[2]), os.environ, folder, folder, folder)
    running = process.start(launch, note=note)
    print(running.marker, running._process.pid, running.pid, flush=True)
    time.sleep(600)
"""

#: Ignores what a dying supervisor sends, has a daemon without the marker, and litter.
STUBBORN = (
    "trap '' TERM INT HUP; touch $TMPDIR/mine; setsid env -i /bin/sleep 600 & "
    "echo ready; while :; do sleep 600; done"
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {lock.LOCK_DIR_VARIABLE: str(tmp_path / "lock")}


@pytest.fixture
def note(environ: dict[str, str]) -> Path:
    """Where the note of a launch in flight is kept, with a marker as that of :func:`write`."""
    path = left_over.note_of(left_over.note_path(lock.lock_path(environ).parent), "m" * 32)
    path.parent.mkdir()
    return path


def noted(environ: dict[str, str]) -> list[Path]:
    return sorted(lock.lock_path(environ).parent.glob("in-flight*"))


def below(pid: int) -> list[int]:
    return [each.pid for each in cleanup.descendants(procfs.processes(), [pid])]


@pytest.mark.parametrize("stopped", [False, True], ids=["killed", "stopped"])
def test_the_next_owner_of_the_lock_ends_it(
    tmp_path: Path, environ: dict[str, str], stopped: bool
) -> None:
    argv = [sys.executable, "-c", MEASURING, str(tmp_path), STUBBORN]
    env = {**os.environ, **environ}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as tune:
        assert tune.stdout is not None
        marker, *words = tune.stdout.readline().split()
        supervisor, command = map(int, words)
        eventually(lambda: "ready" in (tmp_path / process.OUTPUT).read_text())
        eventually(lambda: len(below(supervisor)) == 3)
        pids = below(supervisor)
        assert command in pids
        os.kill(supervisor, signal.SIGSTOP)  # so that it does nothing in between
        tune.kill()
    if not stopped:
        os.kill(supervisor, signal.SIGKILL)
    folder = Path(f"/tmp/tune-{marker[:16]}")
    assert (folder / "mine").exists()
    (note,) = noted(environ)
    assert note.stat().st_mode & 0o777 == 0o600
    with lock.measuring("another study", environ=environ):
        assert not any(path.exists() for path in (note, folder))
        assert not alive(supervisor)
        # Nothing tells whose the daemon without the marker was.
        left = [pid for pid in pids if alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert len(left) <= 1


def test_the_note_goes_with_the_launch(tmp_path: Path, environ: dict[str, str]) -> None:
    with lock.measuring("mine", environ=environ) as note:
        launch = Launch(("sleep", "600"), os.environ, tmp_path, tmp_path, tmp_path)
        both = [process.start(launch, note=note) for _ in range(2)]
        flights = [left_over.parse(path.read_bytes()) for path in noted(environ)]
        assert {flight.marker for flight in flights if flight} == {each.marker for each in both}
        both[0].stop()
        (path,) = noted(environ)
        flight = left_over.parse(path.read_bytes())
        assert flight is not None and flight.marker == both[1].marker
        both[1].stop()
        assert noted(environ) == []
        missing = Launch(("no-such-program",), os.environ, tmp_path, tmp_path, tmp_path)
        with pytest.raises(FileNotFoundError):
            process.start(missing, note=note)
        assert noted(environ) == []


def write(note: Path, **fields: object) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    flight = {"marker": "m" * 32, "since": 0, "boot_id": boot_id, "folder": ""}
    note.write_text(json.dumps({**flight, **fields}))


def test_only_what_carries_the_marker_and_is_younger_and_of_this_boot_is_ended(
    note: Path,
    environ: dict[str, str],
    tmp_path: Path,
    bystander: Callable[..., subprocess.Popen[bytes]],
) -> None:
    ours, *others = (
        bystander("sleep", "600", env={**os.environ, process.MARKER: marker})
        for marker in ("m" * 32, "m" * 31, "n" * 32)
    )
    folder = tmp_path / f"tune-{'m' * 16}"
    folder.mkdir()
    write(note, since=cleanup.now() + 100)
    with lock.measuring("mine", environ=environ):
        assert ours.poll() is None, "older than the launch: a decoy"
    write(note, boot_id="of an earlier boot", folder=str(folder))
    with lock.measuring("mine", environ=environ):
        assert ours.poll() is None
        assert not folder.exists()
        assert not note.exists()
    write(note)
    with lock.measuring("mine", environ=environ):
        assert ours.wait(PATIENCE_S) == -signal.SIGKILL
        assert [other.poll() for other in others] == [None] * len(others)


@pytest.mark.parametrize("text", [b"", b'{"marker": ""}', b"[" * 9000])
def test_a_note_without_sense_ends_nothing(
    note: Path, environ: dict[str, str], text: bytes
) -> None:
    note.write_bytes(text)
    with lock.measuring("mine", environ=environ):
        assert not note.exists()
