"""What a test does to a running trial, its ``tune`` or its database, by name."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.faults import disks, left
from tests.faults.bench import Bench, Strike
from tuner.hosts import process

PROC = Path("/proc")
HOURS_S = 7200.0


def _mpirun(bench: Bench) -> int:
    assert bench.running is not None
    return bench.running.pid


def _supervisor(bench: Bench) -> int:
    stat = (PROC / str(_mpirun(bench)) / "stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def _look(bench: Bench) -> None:
    """As ``tune`` does now and then."""
    assert bench.running is not None
    bench.running.pids()


# --- the launcher --------------------------------------------------------------------------


def to_mpirun(number: int) -> Strike:
    """A signal to mpirun."""
    return lambda bench: os.kill(_mpirun(bench), number)


def to_supervisor(number: int) -> Strike:
    """A signal to the supervisor, after a look at the processes of the trial."""

    def strike(bench: Bench) -> None:
        _look(bench)
        os.kill(_supervisor(bench), number)

    return strike


def kill_the_supervisor_at_once(bench: Bench) -> None:
    """It has started nothing yet, and nobody has told it what to start."""
    assert bench.running is not None
    os.kill(bench.running._link.pid, signal.SIGKILL)


def stop_the_supervisor(bench: Bench) -> None:
    """Then the ranks go on to their end."""
    os.kill(_supervisor(bench), signal.SIGSTOP)
    bench.go()


def kill_a_wrapper(bench: Bench) -> None:
    rank = bench.pids("rank 1")[0]
    stat = (PROC / str(rank) / "stat").read_text()
    os.kill(int(stat[stat.rindex(")") + 2 :].split()[1]), signal.SIGKILL)


# --- beside it -----------------------------------------------------------------------------


def _beside(bench: Bench, argv: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    """A process of somebody else: it must live on, until the test ends it."""
    env.pop(left.VARIABLE, None)
    folder = bench.folder / "beside"
    (folder / "noted").mkdir(parents=True, exist_ok=True)
    one = subprocess.Popen(
        argv,
        env=env,
        cwd=folder,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def check() -> str:
        harmed = one.poll() is not None
        if harmed:
            return f"a process beside it was hurt: {argv[:2]} ended with {one.returncode}"
        one.terminate()
        try:
            one.wait(20)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
        for note in left.notes(folder / "noted"):  # an MPI that is ended leaves its memory
            for segment in note["segments"]:
                Path(segment).unlink(missing_ok=True)
        return ""

    bench.checks.append(check)
    return one


def _plain(bench: Bench) -> dict[str, str]:
    """The environment of the launch, without what makes it ours."""
    assert bench.launch is not None
    gone = {process.MARKER, left.VARIABLE}
    return {name: value for name, value in bench.launch.env.items() if name not in gone}


def start_the_same_command(bench: Bench) -> None:
    """The same mpirun with the same trainer, which is at work as long as ours."""
    assert bench.launch is not None
    folder = bench.folder / "beside"
    (folder / "noted").mkdir(parents=True)
    (folder / "fault.json").write_text('{"act": "holds", "rank": "all", "at": 1}')
    _beside(bench, list(bench.launch.argv), _plain(bench) | {"TMPDIR": str(folder)})
    bench.go()


def start_decoys(bench: Bench) -> None:
    """Markers of other trials, and ours in another variable."""
    assert bench.running is not None
    marker = bench.running.marker
    plain = _plain(bench)
    for env in (
        plain,
        {**plain, process.MARKER: marker + "0"},
        {**plain, process.MARKER: marker[:-1]},
        {**plain, f"NOT_{process.MARKER}": marker},
        {**plain, process.MARKER: ""},
    ):
        _beside(bench, ["sleep", "600"], env)
    bench.go()


def recycle_a_pid(bench: Bench) -> None:
    """A process gets the id of one of the trial that has ended; then the supervisor is killed.

    The only one to remember that id is then ``tune`` itself.
    """
    daemon = _daemon(bench)
    _look(bench)
    while left.alive([daemon]):
        time.sleep(0.02)
    decoy = _with_pid(bench, daemon["pid"])
    if decoy is None:  # the kernel does not let us: what tune remembers names another start
        decoy = _beside(bench, ["sleep", "600"], _plain(bench)).pid
        assert bench.running is not None
        bench.running._seen.add((decoy, daemon["start"]))
    os.kill(_supervisor(bench), signal.SIGKILL)


def _daemon(bench: Bench) -> dict[str, Any]:
    """What the daemon of the trial noted of itself, once it has."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        for note in left.notes(bench.folder / "noted"):
            if note["role"] == "daemon":
                return note
        time.sleep(0.02)
    raise TimeoutError("no daemon was forked")


def _with_pid(bench: Bench, pid: int) -> int | None:
    for _ in range(50):
        try:
            (PROC / "sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            return None
        one = _beside(bench, ["sleep", "600"], _plain(bench))
        if one.pid == pid:
            return pid
        bench.checks.pop()
        one.kill()
        one.wait()
    return None


def compute_beside_it(bench: Bench) -> None:
    """Another user of every core, as long as the launch lasts."""
    loop = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(loop, start_new_session=True) for _ in range(2)]

    def end() -> None:
        for one in busy:
            one.kill()
            one.wait()

    bench.after_launch.append(end)
    timer = threading.Timer(1.0, bench.go)
    timer.start()
    bench.after_launch.append(timer.join)


def set_the_clock_back(bench: Bench) -> None:
    """Two hours, as ``tune`` sees it; the system's own is left alone."""
    now = time.time
    patched = patch("time.time", lambda: now() - HOURS_S)
    patched.start()
    bench.after_launch.append(patched.stop)
    bench.go()


# --- tune ----------------------------------------------------------------------------------


def to_tune(*numbers: int) -> Strike:
    """Signals to this very process."""

    def strike(_: Bench) -> None:
        for number in numbers:
            os.kill(os.getpid(), number)

    return strike


def kill_tune_and_the_supervisor(bench: Bench) -> None:
    os.kill(_supervisor(bench), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def hang_up(_: Bench) -> None:
    """Whoever holds the other side of our terminal closes it now; see `children`."""
    os.write(1, b"hang up\n")


def stop_tune_for_a_while(bench: Bench) -> None:
    child = os.fork()
    if child == 0:
        time.sleep(0.5)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.waitpid(child, 0)
    bench.go()


# --- the database --------------------------------------------------------------------------


def _lock(bench: Bench) -> sqlite3.Connection:
    other = sqlite3.connect(bench.database, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    return other


def lock_for_a_moment(bench: Bench) -> None:
    other = _lock(bench)
    timer = threading.Timer(1.0, other.close)
    timer.start()
    bench.after_launch.append(timer.join)


_LOCKS: dict[str, sqlite3.Connection] = {}


def lock_the_database(bench: Bench) -> None:
    _LOCKS[bench.name] = _lock(bench)


def unlock_the_database(bench: Bench) -> None:
    _LOCKS.pop(bench.name).close()


def _aside(bench: Bench) -> Path:
    return bench.folder / "aside.db"


def remove_the_database(bench: Bench) -> None:
    bench.database.rename(_aside(bench))


def replace_the_database(bench: Bench) -> None:
    """By one of another program."""
    other = bench.folder / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    shutil.copy(bench.database, _aside(bench))
    other.replace(bench.database)


def bring_the_database_back(bench: Bench) -> None:
    _aside(bench).replace(bench.database)


def make_the_database_read_only(bench: Bench) -> None:
    disks.protect(bench.database.parent)


def make_the_database_writable(bench: Bench) -> None:
    disks.unprotect(bench.database.parent)


def _filler(bench: Bench) -> Path:
    return bench.folder / "db" / "filler"


def fill_the_disk(bench: Bench) -> None:
    disks.fill(_filler(bench))


def free_the_disk(bench: Bench) -> None:
    _filler(bench).unlink(missing_ok=True)
    for path in (bench.folder / "outputs").rglob("snapshot"):
        path.unlink()


STRIKES: dict[str, Callable[[Bench], None]] = {
    "kill mpirun": to_mpirun(signal.SIGKILL),
    "stop mpirun": to_mpirun(signal.SIGSTOP),
    "terminate mpirun": to_mpirun(signal.SIGTERM),
    "kill a wrapper": kill_a_wrapper,
    "kill the supervisor": to_supervisor(signal.SIGKILL),
    "terminate the supervisor": to_supervisor(signal.SIGTERM),
    "kill the supervisor at once": kill_the_supervisor_at_once,
    "stop the supervisor": stop_the_supervisor,
    "start the same command": start_the_same_command,
    "start decoys": start_decoys,
    "recycle a pid, kill the supervisor": recycle_a_pid,
    "compute beside it": compute_beside_it,
    "set the clock back": set_the_clock_back,
    "kill tune": to_tune(signal.SIGKILL),
    "kill tune and the supervisor": kill_tune_and_the_supervisor,
    "terminate tune": to_tune(signal.SIGTERM),
    "interrupt tune": to_tune(signal.SIGINT),
    "interrupt tune twice": to_tune(signal.SIGINT, signal.SIGINT),
    "hang up": hang_up,
    "stop tune for a while": stop_tune_for_a_while,
    "lock for a moment": lock_for_a_moment,
    "lock the database": lock_the_database,
    "unlock the database": unlock_the_database,
    "remove the database": remove_the_database,
    "replace the database": replace_the_database,
    "bring the database back": bring_the_database_back,
    "make the database read-only": make_the_database_read_only,
    "make the database writable": make_the_database_writable,
    "fill the disk": fill_the_disk,
    "free the disk": free_the_disk,
}
