"""What the ranks of a job do together, and each for itself."""

from __future__ import annotations

import cProfile
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")


class World(Protocol):
    """What is needed of an MPI communicator."""

    @property
    def rank(self) -> int:
        """This process's number in it."""
        ...

    def allgather(self, sendobj: str | None) -> list[str | None]:
        """Every rank's object, on every rank."""
        ...

    def Barrier(self) -> None:  # noqa: N802 -- MPI's name
        """Wait for all."""
        ...


class Aborting(Protocol):
    """The same, where a job is ended."""

    def Abort(self, errorcode: int) -> object:  # noqa: N802 -- MPI's name
        """End every rank of the job."""
        ...


class RefusedError(Exception):
    """The job cannot go on; rank 0 has said why."""


def together(
    world: World, step: Callable[[], T], *, refusals: tuple[type[Exception], ...], prog: str
) -> T:
    """Do a step on every rank; where any of them refuses, rank 0 says why, once.

    Args:
        world: All ranks of the job.
        step: What to do; no communication in it, since a rank may leave it early.
        refusals: The errors whose text is for the user; others pass through.
        prog: The program's name, for the message.

    Raises:
        RefusedError: On every rank alike.
    """
    refusal: str | None = None
    try:
        result = step()
    except refusals as error:
        refusal = str(error)
    reasons = [text for text in world.allgather(refusal) if text is not None]
    if reasons:
        if world.rank == 0:
            print(f"{prog}: error: {reasons[0]}", file=sys.stderr, flush=True)
        world.Barrier()  # the first rank to exit ends the job: rank 0 speaks before
        raise RefusedError
    return result


def end_with_threads(world: Aborting, *, refusals: tuple[type[Exception], ...], prog: str) -> None:
    """From now on an error that ends a thread of this rank ends the job.

    Chainer loads data in a thread; without it the rank would wait for a batch for ever.

    Args:
        world: All ranks of the job.
        refusals: The errors whose text is for the user; others have a traceback.
        prog: The program's name, for the message.
    """

    def end(failed: threading.ExceptHookArgs) -> None:
        if isinstance(failed.exc_value, refusals):
            print(f"{prog}: error: {failed.exc_value}", file=sys.stderr, flush=True)
        else:
            threading.__excepthook__(failed)
        world.Abort(1)

    threading.excepthook = end


@contextmanager
def profiled(folder: Path | None, rank: int) -> Iterator[None]:
    """Profile what is done inside into ``folder/rank-N.prof``, on failure too.

    ``None`` as the folder: no profile.
    """
    if folder is None:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        folder.mkdir(parents=True, exist_ok=True)  # on other hosts too
        profile.dump_stats(folder / f"rank-{rank}.prof")
