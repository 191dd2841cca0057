"""A trainer of half a second: some ranks, each with a process that loads its data.

``python -m mpi4py trainer.py OUT --step STEP``, in a folder that may hold ``fault.json``:
``{"act": NAME, "rank": R, "at": ITERATION}``, an entry of ``acts.ACTS``. Each process notes
itself in ``noted/``, so that a test can tell whether it is still there. The times that rank 0
reports are made up of STEP, so that a test knows them.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.faults.inside import acts

ITERATIONS = 4


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


def train(out: Path, step: float) -> None:
    """A few iterations, and what goes wrong in them."""
    fault = planned()
    loader = Loader(keeps=fault.get("act") == "killed beside a worker that keeps all")
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    log = acts.Log(out)
    me = acts.Rank(world, loader, log, MPI)
    world.Barrier()  # now the memory that the ranks share is there
    acts.note(f"rank {world.rank}", acts.segments())
    mine = fault.get("rank") in {world.rank, "all"}
    for iteration in range(1, ITERATIONS + 1):
        loader.load()
        if mine and fault["at"] == iteration:
            acts.ACTS[fault["act"]](me)
        world.allreduce(iteration)
        if world.rank == 0:
            log.add(iteration, 0.01 * step * iteration, math.exp(-iteration))
    world.Barrier()
    if mine and fault["at"] > ITERATIONS:
        acts.ACTS[fault["act"]](me)
    loader.close()


if __name__ == "__main__":
    train(Path(sys.argv[1]), float(sys.argv[3]))
