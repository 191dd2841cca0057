"""A trainer of half a second: some ranks, each with a process that loads its data.

``python -m mpi4py trainer.py OUT --step STEP --iterations N``, in a folder that may hold
``fault.json``: ``{"act": NAME, "rank": R, "at": ITERATION, "phase": PHASE}``, an entry of
``acts.ACTS``. It happens in that iteration, or, with a phase, once a study has switched the
running job to another step: ``switch``, in that very moment, or ``window``, so many iterations
later. Each process notes itself in ``noted/``, so that a test can tell whether it is still there.
The times that rank 0 reports are made up of STEP, so that a test knows them.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.faults.inside import acts
from tuner import live

#: An iteration of a job that is retuned takes at least so long, s.
PACE_S = 0.01


class Loader:
    """An iterator worker: a forked process that answers each request, over pipes.

    As with multiprocessing's queues its own ends stay open on this side: where it dies, the
    rank waits for ever, and where the rank dies, it does. One that ``keeps`` what its rank has
    open (the output; MPICH's line to the launcher) hides the rank's end from the launcher.
    """

    def __init__(self, *, keeps: bool) -> None:
        self.asked, self.ask = os.pipe()
        self.answers, self.answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            acts.note("loader")
            if not keeps:
                acts.close_all_but(self.asked, self.answer)
            while os.read(self.asked, 1) != b"q":
                os.write(self.answer, b"x")
            os._exit(0)

    def load(self) -> None:
        """A batch."""
        os.write(self.ask, b"l")
        os.read(self.answers, 1)

    def close(self) -> None:
        """End it."""
        os.write(self.ask, b"q")
        os.waitpid(self.pid, 0)


def planned() -> dict[str, Any]:
    """What is to go wrong; nothing where there is no such file."""
    try:
        found: dict[str, Any] = json.loads(Path("fault.json").read_text())
    except FileNotFoundError:
        return {}
    return found


class Training:
    """The iterations, and what goes wrong in them."""

    def __init__(self, out: Path, step: int, iterations: int) -> None:
        fault = planned()
        self.fault = {} if fault.get("phase") else fault
        loader = Loader(keeps=self.fault.get("act") == "killed beside a worker that keeps all")
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.me = acts.Rank(self.world, loader, acts.Log(out), MPI)
        self.step, self.iterations, self.iteration = step, iterations, 0
        self.session = live.session()
        self.session.on("step", self.switch, read=lambda: self.step)

    def run(self) -> None:
        """All of them."""
        self.world.Barrier()  # now the memory that the ranks share is there
        acts.note(f"rank {self.world.rank}", acts.segments())
        while self.iteration < self.iterations or self.session.more():
            self.iterate()
        self.world.Barrier()
        if self.fault and self.fault["at"] > self.iterations:
            self.act()
        self.me.loader.close()

    def iterate(self) -> None:
        """One of them."""
        self.iteration += 1
        self.me.loader.load()
        if self.fault and self.fault["at"] == self.iteration:
            self.act()
        self.world.allreduce(self.iteration)
        if self.world.rank == 0:
            time_s = 0.01 * self.step * self.iteration
            self.me.log.add(self.iteration, time_s, math.exp(-self.iteration))
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
            acts.ACTS[self.fault["act"]](self.me)


if __name__ == "__main__":
    Training(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[5])).run()
