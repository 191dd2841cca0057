"""One measuring process a host, whoever else wants to."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tuner.hosts import lock
from tuner.model.errors import BusyError, UsageError

HOLD = """
import os, sys
from tuner.hosts import lock
with lock.measuring("theirs", environ=os.environ, database="/their.db"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    argv, pipe = [sys.executable, "-c", HOLD], subprocess.PIPE
    env = os.environ | environ
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {lock.LOCK_DIR_VARIABLE: str(tmp_path / "a lock")}


def test_busy_names_the_owner_who_is_waited_for_until_it_is_killed(environ: dict[str, str]) -> None:
    reasons: list[str] = []
    with holder(environ) as process:
        with pytest.raises(BusyError) as caught, lock.measuring("mine", environ=environ):
            pass
        assert f"process {process.pid} (study theirs)" in caught.value.message
        cancelled = lock.measuring("mine", environ=environ, wait=True, cancelled=lambda: True)
        with pytest.raises(KeyboardInterrupt), cancelled:
            pass

        def end(why: str) -> None:
            reasons.append(why)
            process.kill()  # what a killed owner held is free

        with lock.measuring("mine", environ=environ, wait=True, on_wait=end):
            pass
    assert reasons == [caught.value.message]


def test_who_measures_is_seen_without_taking_the_lock(environ: dict[str, str]) -> None:
    def theirs(study: str = "theirs", database: str = "/their.db") -> bool:
        return lock.may_measure(study, database=database, environ=environ)

    assert not theirs(), "there is no lock yet"
    with holder(environ) as process:
        assert theirs()
        assert not theirs(study="other") and not theirs(database="/other.db")
        process.kill()
        process.wait()
        assert not theirs(), "the text of a dead owner is still there"
    with lock.measuring("mine", environ=environ):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
        note = json.loads(lock.lock_path(environ).read_text())
    with lock.measuring("mine", environ=environ):
        pass  # the lock does not leak into children
    child.kill()
    child.wait()
    reused = {**note, "started": note["started"] - 1}
    for written, measures in ((note, True), (reused, False)):
        lock.lock_path(environ).write_text(json.dumps(written))
        assert lock.may_measure("mine", database="", environ=environ) == measures


def test_a_lock_file_that_was_removed_meanwhile_is_none(environ: dict[str, str]) -> None:
    """Who waits for it would own a file that nobody else can find."""
    path = lock.lock_path(environ)
    with holder(environ) as process:

        def replaced(_: str) -> None:
            path.unlink()
            path.touch()
            process.kill()

        with lock.measuring("mine", environ=environ, wait=True, on_wait=replaced):
            assert lock.may_measure("mine", database="", environ=environ)
            with pytest.raises(BusyError), lock.measuring("second", environ=environ):
                pass


def test_the_folder_is_for_all_and_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.hosts.lock.SHARED_FOLDER", tmp_path)
    with lock.measuring("mine", environ={}):
        path = lock.lock_path({})
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o1777
    (target := tmp_path / "target").write_text("kept")
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(UsageError, match="cannot be used"), lock.measuring("x", environ={}):
        pass
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(tmp_path)
    with pytest.raises(UsageError), lock.measuring("mine", environ={}):
        pass
    assert target.read_text() == "kept"
