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
    print(running.marker, running._process.pid, flush=True)
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


def notes(environ: dict[str, str]) -> list[Path]:
    return sorted(lock.lock_path(environ).parent.glob("in-flight*"))


@pytest.mark.parametrize("is_stopped", [False, True], ids=["killed", "stopped"])
def test_the_next_owner_of_the_lock_ends_it(
    tmp_path: Path, environ: dict[str, str], is_stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_over, "_GRACE_S", 0.1)
    argv = [sys.executable, "-c", MEASURING, str(tmp_path), STUBBORN]
    env = {**os.environ, **environ}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as tune:
        assert tune.stdout is not None
        marker, word = tune.stdout.readline().split()
        supervisor = int(word)

        def below() -> list[int]:
            return [p.pid for p in cleanup.descendants(procfs.processes(), [supervisor])]

        eventually(lambda: "ready" in (tmp_path / process.OUTPUT).read_text())
        eventually(lambda: len(below()) == 3)
        pids = below()
        os.kill(supervisor, signal.SIGSTOP)  # so that it does nothing in between
        tune.kill()
    if not is_stopped:
        os.kill(supervisor, signal.SIGKILL)
    folder = Path(f"/tmp/tune-{marker[:16]}")
    assert (folder / "mine").exists()
    (note,) = notes(environ)
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
    def launch(*argv: str) -> Launch:
        return Launch(argv, os.environ, tmp_path, tmp_path, tmp_path)

    with lock.measuring("mine", environ=environ) as note:
        one, other = (process.start(launch("sleep", "600"), note=note) for _ in range(2))
        one.stop()
        (path,) = notes(environ)
        flight = left_over.parse(path.read_bytes())
        assert flight is not None and flight.marker == other.marker
        other.stop()
        with pytest.raises(FileNotFoundError):
            process.start(launch("no-such-program"), note=note)
        assert notes(environ) == []


def test_only_what_carries_the_marker_and_is_younger_and_of_this_boot_is_ended(
    environ: dict[str, str], tmp_path: Path, bystander: Callable[..., subprocess.Popen[bytes]]
) -> None:
    marker = "m" * 32
    note = left_over.note_of(left_over.note_path(tmp_path / "lock"), marker)
    note.parent.mkdir()
    ours, *others = (
        bystander("sleep", "600", env={**os.environ, process.MARKER: carried})
        for carried in (marker, "m" * 31, "n" * 32)
    )
    (folder := tmp_path / f"tune-{'m' * 16}").mkdir()
    flight: dict[str, object]
    flight = {"marker": marker, "since": 0, "boot_id": left_over.boot_id(), "folder": ""}
    changes: list[dict[str, object]] = [
        {"since": cleanup.now() + 100},  # older than the launch: a decoy
        {"boot_id": "of an earlier boot", "folder": str(folder)},
        {"marker": ""},
    ]
    for changed in changes:
        note.write_text(json.dumps({**flight, **changed}))
        with lock.measuring("mine", environ=environ):
            assert ours.poll() is None and not note.exists()
    assert not folder.exists()
    note.write_text(json.dumps(flight))
    with lock.measuring("mine", environ=environ):
        assert ours.wait(PATIENCE_S) == -signal.SIGKILL
        assert [other.poll() for other in others] == [None] * len(others)
