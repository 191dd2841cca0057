"""What goes wrong inside a rank of the trainer, by name."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import mmap
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

PATIENCE_S = 60.0
NOTED = Path("noted").absolute()


def note(role: str, segments: Sequence[str] = ()) -> None:
    """Leave a word of this process: its id, its start (clock ticks), its shared memory."""
    stat = Path("/proc/self/stat").read_text()
    start = int(stat[stat.rindex(")") + 2 :].split()[19])
    what = {"role": role, "pid": os.getpid(), "start": start, "segments": list(segments)}
    new = NOTED / f"{os.getpid()}.new"
    new.write_text(json.dumps(what))
    new.replace(NOTED / f"{os.getpid()}-{start}.json")


def segments() -> list[str]:
    """The shared memory that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.split()[5] for line in lines if "/dev/shm/" in line})


def close_all_but(*kept: int) -> None:
    """Close what the parent had open, output and all."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


class Log:
    """A LogReport file, replaced as a whole."""

    def __init__(self, out: Path) -> None:
        self.path = out / "log"
        self.entries: list[dict[str, Any]] = []

    def add(self, iteration: int, elapsed_time: float, loss: float) -> None:
        """One more entry."""
        entry = {"iteration": iteration, "elapsed_time": elapsed_time, "main/loss": loss}
        self.entries.append(entry)
        self.write(json.dumps(self.entries))

    def write(self, text: str) -> None:
        """Replace it by any text."""
        draft = self.path.with_name("draft")
        draft.write_text(text)
        draft.replace(self.path)

    def rewrite(self, **last: Any) -> None:
        """Change the last entry."""
        self.write(json.dumps([*self.entries[:-1], {**self.entries[-1], **last}]))


class Rank:
    """Where an act happens: a rank, its iterator worker, and for rank 0 the log."""

    def __init__(self, world: Any, loader: Any, log: Log, mpi: Any) -> None:
        self.world, self.loader, self.log, self.mpi = world, loader, log, mpi


# --- the process ---------------------------------------------------------------------------


def signalled(number: int) -> Callable[[Rank], None]:
    """The rank gets a signal."""

    def act(_: Rank) -> None:
        os.kill(os.getpid(), number)

    return act


def loader_signalled(number: int) -> Callable[[Rank], None]:
    """The rank's iterator worker gets a signal, and is asked for the next batch."""

    def act(rank: Rank) -> None:
        os.kill(rank.loader.pid, number)
        rank.loader.load()

    return act


def loader_quits(rank: Rank) -> None:
    """The iterator worker ends without a word."""
    rank.loader.close()
    rank.loader.load()


def raises(_: Rank) -> NoReturn:
    raise ValueError("no such data")


def raises_unseen(rank: Rank) -> NoReturn:
    """As under plain ``python``: the traceback is printed, then MPI waits for the others."""
    print("Traceback (most recent call last):\nValueError: no such data", flush=True)
    rank.mpi.Finalize()
    sys.exit(1)


def exits_0(_: Rank) -> NoReturn:
    os._exit(0)


def exits_0_politely(rank: Rank) -> NoReturn:
    """Without the rest of the ranks: MPI waits for them."""
    rank.loader.close()
    sys.exit(0)


def exits_3(_: Rank) -> NoReturn:
    os._exit(3)


def aborts_all(rank: Rank) -> None:
    rank.world.Abort(7)


def reads_nowhere(_: Rank) -> None:
    ctypes.string_at(0)


def reads_beyond_the_file(_: Rank) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as memory:
            file.truncate(0)
            print(memory[0])


def idles(_: Rank) -> None:
    time.sleep(PATIENCE_S)


def receives_nothing(rank: Rank) -> None:
    """All ranks wait for a message that nobody sends."""
    rank.world.recv(source=(rank.world.rank + 1) % rank.world.size, tag=99)


def loops(_: Rank) -> None:
    """It computes for ever."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        pass


def stubborn(_: Rank) -> None:
    """Nothing polite ends it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(PATIENCE_S)


# --- what it leaves behind -----------------------------------------------------------------


def _daemon(live_s: float, *, bare: bool = False, keeps: bool = False) -> None:
    """A process in a session of its own, its parent gone.

    ``bare``: without our environment; ``keeps``: with all that its parent had open.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("daemon")
    if not keeps:
        close_all_but()
    if bare:
        os.execve("/bin/sleep", ["sleep", str(live_s)], {})
    time.sleep(live_s)
    os._exit(0)


def forks_a_daemon(_: Rank) -> None:
    _daemon(600)


def forks_a_daemon_that_keeps_all(_: Rank) -> None:
    _daemon(600, keeps=True)


def forks_a_bare_daemon(_: Rank) -> None:
    _daemon(600, bare=True)


def forks_a_short_daemon(rank: Rank) -> None:
    """It is seen, and gone before the end; then the rank waits for the test."""
    if rank.world.rank == 0:
        _daemon(1.5, bare=True)
    holds(rank)


def forks_a_daemon_and_holds(rank: Rank) -> None:
    _daemon(600)
    holds(rank)


def forks_a_bare_daemon_and_holds(rank: Rank) -> None:
    if rank.world.rank == 0:
        _daemon(600, bare=True)
    holds(rank)


def forks_a_crowd(_: Rank) -> None:
    """Many at once, none of which ends politely."""
    for _number in range(20):
        _daemon(600)


def litters(_: Rank) -> None:
    """Files in the folder for temporary ones, and processes that hold them."""
    Path(tempfile.mkdtemp(), "big").write_bytes(b"x" * (1 << 20))


# --- shortages -----------------------------------------------------------------------------


def runs_out_of_memory(_: Rank) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)
    print(len(bytes(1 << 30)))


def runs_out_of_threads(_: Rank) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)
    threading.stack_size(1 << 30)
    threading.Thread(target=time.sleep, args=(1,)).start()


def has_no_blas_threads(_: Rank) -> NoReturn:
    """What OpenBLAS prints, and how it ends."""
    what = "Resource temporarily unavailable"
    line = f"OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 8: {what}"
    print(line, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(1)


def is_killed_for_memory(_: Rank) -> None:
    """As Slurm says it."""
    line = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks"
    print(line, "have been OOM Killed.", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def has_no_shared_memory(_: Rank) -> NoReturn:
    """As PyTorch says it."""
    name = f"/torch_{os.getpid()}_1"
    raise RuntimeError(f"unable to write to file <{name}>: No space left on device (28)")


def has_no_space(_: Rank) -> None:
    """Though the disks have room."""
    with Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")


def is_over_quota(_: Rank) -> None:
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "/data/snapshot")


def fills_the_disk(rank: Rank) -> None:
    """Until there is no space left where the logs go."""
    with (rank.log.path.parent / "snapshot").open("wb", buffering=0) as file:
        while True:
            if file.write(bytes(1 << 16)) < 1 << 16:
                file.write(b"x")


def writes_too_large_a_file(rank: Rank) -> None:
    """``ulimit -f``: SIGXFSZ."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16,) * 2)
    (rank.log.path.parent / "snapshot").write_bytes(bytes(1 << 20))


def loses_a_host(_: Rank) -> NoReturn:
    """What Open MPI prints once the link to another host is gone."""
    print(
        "-" * 74 + "\n"
        "ORTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [[1,0],0] on node node1\n  Remote daemon: [[1,0],1] on node node2\n\n"
        "This is usually due to either a failure of the TCP network\nconnection to the node, or"
        " possibly an internal failure of\nthe daemon itself. We cannot recover from this"
        " failure, and\ntherefore will terminate the job.\n" + "-" * 74,
        flush=True,
    )
    os._exit(1)


# --- the log -------------------------------------------------------------------------------


def text_log(text: str) -> Callable[[Rank], None]:
    """The log holds this text in the end."""
    return lambda rank: rank.log.write(text)


def changed_log(**last: Any) -> Callable[[Rank], None]:
    """The last entry of the log says something else."""
    return lambda rank: rank.log.rewrite(**last)


def half_a_log(rank: Rank) -> None:
    text = json.dumps(rank.log.entries)
    rank.log.write(text[: len(text) // 2])


def no_log(rank: Rank) -> None:
    rank.log.path.unlink()


def short_log(rank: Rank) -> None:
    rank.log.write(json.dumps(rank.log.entries[:2]))


def log_is(make: Callable[[Path], object]) -> Callable[[Rank], None]:
    """The log is no plain file."""

    def act(rank: Rank) -> None:
        rank.log.path.unlink()
        make(rank.log.path)

    return act


def clock_set_back(rank: Rank) -> None:
    """An hour, in the middle of the training: what it reports from then on is before the start."""
    last = rank.log.entries[-1]["elapsed_time"]
    rank.log.add(3, last - 3600 + 3600.5, 0.1)
    rank.log.add(4, max(0.0, last - 3600), 0.1)
    time.sleep(0.3)  # it is there long enough to be read


# --- the test acts -------------------------------------------------------------------------


def holds(rank: Rank) -> None:
    """All ranks stay in this iteration until the test says ``go``."""
    (NOTED / f"holding-{rank.world.rank}").touch()
    deadline = time.monotonic() + PATIENCE_S
    while not rank.world.allreduce(Path("go").exists() and rank.world.rank == 0):
        if time.monotonic() > deadline:
            os._exit(99)
        time.sleep(0.02)


def holds_and_is_killed(rank: Rank) -> None:
    """The last rank is, once the test says ``go``."""
    holds(rank)
    if rank.world.rank == rank.world.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)


ACTS: dict[str, Callable[[Rank], Any]] = {
    "killed": signalled(signal.SIGKILL),
    "killed beside a worker that keeps all": signalled(signal.SIGKILL),
    "stopped": signalled(signal.SIGSTOP),
    "terminated": signalled(signal.SIGTERM),
    "aborted": signalled(signal.SIGABRT),
    "floating point": signalled(signal.SIGFPE),
    "loader killed": loader_signalled(signal.SIGKILL),
    "loader stopped": loader_signalled(signal.SIGSTOP),
    "loader quits": loader_quits,
    "raises": raises,
    "raises unseen": raises_unseen,
    "exits 0": exits_0,
    "exits 0 politely": exits_0_politely,
    "exits 3": exits_3,
    "aborts all": aborts_all,
    "reads nowhere": reads_nowhere,
    "reads beyond the file": reads_beyond_the_file,
    "idles": idles,
    "receives nothing": receives_nothing,
    "loops": loops,
    "stubborn": stubborn,
    "forks a daemon": forks_a_daemon,
    "forks a daemon that keeps all": forks_a_daemon_that_keeps_all,
    "forks a bare daemon": forks_a_bare_daemon,
    "forks a short daemon": forks_a_short_daemon,
    "forks a daemon and holds": forks_a_daemon_and_holds,
    "forks a bare daemon and holds": forks_a_bare_daemon_and_holds,
    "forks a crowd": forks_a_crowd,
    "litters": litters,
    "runs out of memory": runs_out_of_memory,
    "runs out of threads": runs_out_of_threads,
    "has no BLAS threads": has_no_blas_threads,
    "is killed for memory": is_killed_for_memory,
    "has no shared memory": has_no_shared_memory,
    "has no space": has_no_space,
    "is over quota": is_over_quota,
    "fills the disk": fills_the_disk,
    "writes too large a file": writes_too_large_a_file,
    "loses a host": loses_a_host,
    "half a log": half_a_log,
    "no log": no_log,
    "empty log": text_log(""),
    "log of another program": text_log("epoch 1 loss 0.25\nepoch 2 loss 0.125\n"),
    "log of other keys": text_log('[{"step": 1, "time": 0.5}]'),
    "deep log": text_log("[" * 100_000),
    "log with no number": changed_log(elapsed_time="soon"),
    "log at infinity": changed_log(elapsed_time=math.inf),
    "log runs backwards": changed_log(elapsed_time=0.001),
    "short log": short_log,
    "loss is nan": changed_log(**{"main/loss": math.nan}),
    "loss is huge": changed_log(**{"main/loss": 50.0}),
    "log is a folder": log_is(lambda path: path.mkdir()),
    "log is a pipe": log_is(os.mkfifo),
    "log is endless": log_is(lambda path: path.symlink_to("/dev/zero")),
    "clock set back": clock_set_back,
    "holds": holds,
    "holds and is killed": holds_and_is_killed,
}
