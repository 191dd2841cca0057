"""A trainer of half a second: some ranks, each with a process that loads its data.

``python -m mpi4py trainer.py OUT --step STEP --iterations N``, in a folder that may hold
``fault.json``: ``{"act": EXPRESSION, "rank": R, "at": ITERATION, "phase": PHASE}``. The expression
is evaluated in that iteration with the names of this file, of `signal` and `errno`, and with the
rank's ``world``, ``loader`` and ``log``; or, with a phase, once a study has switched the running
job to another step: ``switch``, in that very moment, or ``window``, so many iterations later. Each
process notes itself in ``noted/``, so that a test can tell whether it is still there. The times
that rank 0 reports are computed from STEP, so that a test knows them.
"""

from __future__ import annotations

import contextlib
import ctypes  # noqa: F401 -- an act uses it
import errno
import json
import math
import mmap
import os
import resource
import signal
import sys
import tempfile  # noqa: F401 -- an act uses it
import time
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))

from tuner import live

#: An iteration of a live job takes at least so long, s.
PACE_S = 0.01
#: What an iteration takes with step 1 by the program's clock, s.
STEP_S = 0.01
BEGAN_S = time.monotonic()
PATIENCE_S = 60.0
NOTED = Path("noted").absolute()


def note(*segments: str) -> None:
    """Leave a word of this process: id, start (clock ticks), shared memory."""
    stat = Path("/proc/self/stat").read_text()
    start = int(stat[stat.rindex(")") + 2 :].split()[19])
    new = NOTED / f"{os.getpid()}.new"
    new.write_text(json.dumps({"pid": os.getpid(), "start": start, "segments": list(segments)}))
    new.replace(NOTED / f"{os.getpid()}-{start}.json")


def close_all_but(*kept: int) -> None:
    """Close what the parent had open, output and all."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


class IteratorWorker:
    """A forked process that answers each request, over pipes.

    As with multiprocessing's queues its own ends stay open on this side: if it dies, the rank waits
    for ever, and if the rank dies, it does.
    """

    def __init__(self) -> None:
        self.asked, self.ask = os.pipe()
        self.answers, self.answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            note()
            close_all_but(self.asked, self.answer)
            while os.read(self.asked, 1) != b"q":
                os.write(self.answer, b"x")
            os._exit(0)

    def load(self) -> None:
        os.write(self.ask, b"l")
        os.read(self.answers, 1)

    def close(self) -> None:
        os.write(self.ask, b"q")
        os.waitpid(self.pid, 0)


class LogFile:
    """A LogReport file, replaced as a whole."""

    def __init__(self, out: Path) -> None:
        self.path = out / "log"
        self.entries: list[dict[str, Any]] = []

    def add(self, iteration: int, elapsed_time: float, loss: float) -> None:
        entry = {"iteration": iteration, "elapsed_time": elapsed_time, "main/loss": loss}
        self.entries.append(entry)
        self.write(json.dumps(self.entries))

    def write(self, text: str) -> None:
        draft = self.path.with_name("draft")
        draft.write_text(text)
        draft.replace(self.path)

    def change(self, **last: Any) -> None:
        """Let the last entry say something else."""
        self.write(json.dumps([*self.entries[:-1], {**self.entries[-1], **last}]))


class FaultyTraining:
    """The iterations of a rank, and what goes wrong in them."""

    def __init__(self, out: Path, step: int, iterations: int) -> None:
        fault = planned()
        self.fault = {} if fault.get("phase") else fault
        self.loader = IteratorWorker()
        from mpi4py import MPI

        self.world, self.log = MPI.COMM_WORLD, LogFile(out)
        self.step, self.iterations, self.iteration = step, iterations, 0
        self.session = live.session()
        self.session.on("step", self.switch, read=lambda: self.step)

    def run(self) -> None:
        self.world.Barrier()  # now the memory that the ranks share is there
        maps = Path("/proc/self/maps").read_text().splitlines()
        segments = sorted({line.split()[5] for line in maps if "/dev/shm/" in line})
        note(*segments)
        while self.iteration < self.iterations or self.session.more():
            self.iterate()
        self.world.Barrier()
        if self.fault and self.fault["at"] > self.iterations:
            self.act()
        self.loader.close()

    def iterate(self) -> None:
        self.iteration += 1
        self.loader.load()
        if self.fault and self.fault["at"] == self.iteration:
            self.act()
        self.world.allreduce(self.iteration)
        if self.world.rank == 0:
            time_s = STEP_S * self.step * self.iteration
            if self.iteration == self.iterations and not self.session.active:
                # A clock that ends ahead of the real one, as on a fast machine, is not believed.
                time.sleep(max(0.0, time_s - (time.monotonic() - BEGAN_S)))
            self.log.add(self.iteration, time_s, math.exp(-self.iteration))
        if self.session.active:
            time.sleep(PACE_S)
        self.session.step()

    def switch(self, step: int) -> None:
        """A study wants another step of the running job."""
        self.step, self.fault = step, planned()
        if self.fault.get("phase") == "switch":
            self.act()
            self.fault = {}
        elif self.fault:
            self.fault["at"] += self.iteration

    def act(self) -> None:
        """It goes wrong, in the ranks that are meant."""
        if self.fault["rank"] in {self.world.rank, "all"}:
            own = {"world": self.world, "loader": self.loader, "log": self.log}
            eval(self.fault["act"], {**vars(signal), **vars(errno), **globals(), **own})


def planned() -> dict[str, Any]:
    """What is to go wrong; nothing if there is no such file."""
    path = Path("fault.json")
    return dict(json.loads(path.read_text())) if path.exists() else {}


# --- what acts are made of -----------------------------------------------------------------


def strike(what: str, number: int) -> None:
    """Signal the ``mpirun`` or the ``supervisor`` of this job."""
    os.kill(json.loads(Path("pids.json").read_text())[what], number)


def fail(error: Exception) -> NoReturn:
    raise error


def fail_unseen() -> NoReturn:
    """As under plain ``python``: the traceback is printed, then MPI waits for the others."""
    from mpi4py import MPI

    print("Traceback (most recent call last):\nValueError: no such data", flush=True)
    MPI.Finalize()
    sys.exit(1)


def print_and_die(text: str, number: int = 0) -> NoReturn:
    """Print what another program would, and get a signal; exit with 1 if that does not kill."""
    print(text, file=sys.stderr, flush=True)
    os.kill(os.getpid(), number)
    os._exit(1)


def idle(*, busy: bool = False, stubborn: bool = False) -> None:
    """For long; ``stubborn``: nothing polite ends it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if stubborn else ():
        signal.signal(number, signal.SIG_IGN)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if not busy:
            time.sleep(PATIENCE_S)


def daemon(*, bare: bool = False, keeps: bool = False) -> None:
    """Leave a process in a session of its own, its parent gone.

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
    note()
    if not keeps:
        close_all_but()
    if bare:
        os.execve("/bin/sleep", ["sleep", "600"], {})
    time.sleep(600)
    os._exit(0)


def limit_memory() -> None:
    """To 64 MiB more than it has."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)


def set_the_clock_back(log: LogFile) -> None:
    """An hour, in the middle of the training: what it reports from then on is before the start."""
    last = log.entries[-1]["elapsed_time"]
    log.add(3, last + 0.5, 0.1)
    log.add(4, max(0.0, last - 3600), 0.1)
    time.sleep(0.3)  # it is there long enough to be read


#: As OpenBLAS, Slurm, PyTorch and Open MPI (at the loss of a link) print it.
NO_THREADS = (
    "OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 8:"
    " Resource temporarily unavailable"
)
OOM_KILLED = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks"
    " have been OOM Killed."
)
NO_SHARED_MEMORY = "unable to write to file </torch_1_1>: No space left on device (28)"
_RULE = "-" * 74
LOST_HOST = f"{_RULE}\nORTE has lost communication with a remote daemon.\n{_RULE}"


if __name__ == "__main__":
    FaultyTraining(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[5])).run()
