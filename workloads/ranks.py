"""What the ranks of a job do together: agree on a refusal, and end."""

from __future__ import annotations

import sys
import tempfile
import threading
from argparse import Namespace
from collections.abc import Callable
from typing import Any, TypeVar

from trainer_options import WorkloadError

#: With it a study changes settings while a trainer runs.
live: Any
try:
    from tuner import live
except ImportError:  # an interpreter without `tune`: the trainers run as they are
    live = None

T = TypeVar("T")


class JobRefusedError(Exception):
    """The job cannot go on; rank 0 has said why."""


def together(world: Any, step: Callable[[], T], prog: str) -> T:
    """Do a step on every rank; if any of them refuses, rank 0 says why, once, for ``prog``.

    ``world`` is an MPI communicator, or what has its ``rank``, ``allgather`` and ``Barrier``. The
    step must not communicate, since a rank may leave it by a :class:`WorkloadError`.

    Raises:
        JobRefusedError: On every rank alike.
    """
    refusal: str | None = None
    try:
        result = step()
    except WorkloadError as error:
        refusal = str(error)
    reasons = [text for text in world.allgather(refusal) if text is not None]
    if reasons:
        if world.rank == 0:
            print(f"{prog}: error: {reasons[0]}", file=sys.stderr, flush=True)
        world.Barrier()  # the first rank to exit ends the job: rank 0 speaks before
        raise JobRefusedError
    return result


def end_with_threads(world: Any, prog: str) -> None:
    """From now on an error that ends a thread of this rank ends the job, by ``world.Abort``.

    Chainer loads data in a thread; without this the rank would wait for a batch for ever.
    """

    def end(failed: threading.ExceptHookArgs) -> None:
        if isinstance(failed.exc_value, WorkloadError):
            print(f"{prog}: error: {failed.exc_value}", file=sys.stderr, flush=True)
        else:
            threading.__excepthook__(failed)
        world.Abort(1)

    threading.excepthook = end


def make_folder(options: Namespace, rank: int) -> None:
    """Make the folder of the log, on rank 0; raises ``WorkloadError`` if nobody can write there."""
    if rank == 0:
        try:
            options.out.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=options.out).close()
        except OSError as error:
            reason = f"--out {options.out}: cannot write there: {error.strerror}"
            raise WorkloadError(reason) from error
