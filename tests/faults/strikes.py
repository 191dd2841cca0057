"""What a test does to a running trial, its ``tune`` or its database."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.faults import left
from tuner.hosts import process

if TYPE_CHECKING:
    from tests.faults.bench import FaultBench

HOURS_S = 7200.0

Strike = Callable[["FaultBench"], object]


def go(bench: FaultBench) -> None:
    """Let the ranks go on that hold."""
    (bench.folder / "go").touch()


# --- signals -------------------------------------------------------------------------------


def mpirun(number: int) -> Strike:
    """A signal to mpirun."""
    return lambda bench: os.kill(bench.trial.pid, number)


def kill_the_supervisor(bench: FaultBench) -> None:
    """After a look at the processes of the trial, as ``tune`` takes it now and then."""
    bench.trial.pids()
    os.kill(left.parent(bench.trial.pid), signal.SIGKILL)


def stop_the_supervisor(bench: FaultBench) -> None:
    os.kill(left.parent(bench.trial.pid), signal.SIGSTOP)
    go(bench)


# --- beside it -----------------------------------------------------------------------------


def start_the_same_command(bench: FaultBench) -> None:
    """The same mpirun with the same trainer, of somebody else: it must live on beside ours.

    It has the environment of the launch, without what makes it ours.
    """
    assert bench.launch is not None
    gone = {process.MARKER, left.VARIABLE}
    plain = {name: value for name, value in bench.launch.env.items() if name not in gone}
    folder = bench.folder / "beside"
    (folder / "noted").mkdir(parents=True)
    (folder / "fault.json").write_text('{"act": "hold(world)", "rank": "all", "at": 1}')
    one = subprocess.Popen(
        bench.launch.argv,
        env={**plain, "TMPDIR": str(folder)},
        cwd=folder,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def check() -> str:
        if one.poll() is not None:
            return f"the same command beside it was hurt: it ended with {one.returncode}"
        one.terminate()
        one.wait(20)
        for note in left.notes(folder / "noted"):  # an MPI that is ended leaves its memory
            for segment in note["segments"]:
                Path(segment).unlink(missing_ok=True)
        return ""

    bench.checks.append(check)
    go(bench)


def set_the_clock_back(bench: FaultBench) -> None:
    """Two hours, as ``tune`` sees it; the system's own is left alone."""
    now = time.time
    patched = patch("time.time", lambda: now() - HOURS_S)
    patched.start()
    bench.after_launch.append(patched.stop)
    go(bench)


# --- the database --------------------------------------------------------------------------


def lock_the_database(bench: FaultBench) -> None:
    other = sqlite3.connect(bench.database, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    bench.locks.append(other)


def unlock_the_database(bench: FaultBench) -> None:
    bench.locks.pop().close()


def lock_the_database_for_a_moment(bench: FaultBench) -> None:
    lock_the_database(bench)
    timer = threading.Timer(1.0, unlock_the_database, [bench])
    timer.start()
    bench.after_launch.append(timer.join)


def make_the_database_read_only(bench: FaultBench) -> None:
    """By another mount on top: the file system itself refuses as long as a file is open."""
    folder = bench.database.parent
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)


def make_the_database_writable(bench: FaultBench) -> None:
    subprocess.run(["umount", "--lazy", bench.database.parent], check=True)


def fill_the_disk(bench: FaultBench) -> None:
    """Until there is no space left."""
    with (bench.folder / "db" / "filler").open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                written = file.write(bytes(size))
            except OSError:
                written = 0
            if written < size:
                size //= 2


def free_the_disk(bench: FaultBench) -> None:
    (bench.folder / "db" / "filler").unlink(missing_ok=True)
    for path in (bench.folder / "outputs").rglob("snapshot"):
        path.unlink()
