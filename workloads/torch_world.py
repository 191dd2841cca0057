"""The ranks of a PyTorch job: who they are, where they meet, and what they tell each other.

Under torchrun they meet at its own store, with ``MASTER_ADDR`` and ``MASTER_PORT`` at that
address. Otherwise they meet by a file in a folder that all ranks share. No MPI is needed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

#: torchrun starts its ranks within seconds, an mpirun of many hosts within minutes.
PATIENCE_S = 300.0

#: Rank and size as Open MPI, Hydra and torchrun (or the user, with MASTER_ADDR) set them.
_MPIRUN = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
_TORCH = ("RANK", "WORLD_SIZE")


class MeetingError(Exception):
    """Why the ranks did not find each other: one line for the user."""


class JobPlace(NamedTuple):
    """A rank's number among how many; ``by_address``: torch's variables say where they meet."""

    rank: int
    size: int
    by_address: bool


def place(environ: Mapping[str, str]) -> JobPlace:
    """Return which rank this process is; by itself the only one."""
    addressed = bool(environ.get("MASTER_ADDR")) and environ.get("MASTER_PORT", "").isdigit()
    names = [(_TORCH, True)] if "TORCHELASTIC_RUN_ID" in environ else []
    names += [(pair, addressed) for pair in _MPIRUN]
    names += [(_TORCH, True)] if addressed else []
    for (rank, size), by_address in names:
        if environ.get(rank, "").isdigit() and environ.get(size, "").isdigit():
            return JobPlace(int(environ[rank]), int(environ[size]), by_address)
    return JobPlace(0, 1, by_address=False)


@dataclass(frozen=True)
class World:
    """All ranks of the job; each makes the same calls. Gloo carries what they tell each other."""

    rank: int
    size: int

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return every rank's object, on every rank."""
        from torch import distributed

        objects = [None] * self.size
        distributed.all_gather_object(objects, sendobj)
        return objects

    def Barrier(self) -> None:  # noqa: N802 -- MPI's name
        """Wait for all."""
        self.allgather(None)

    def local_rank(self) -> int:
        """Return this rank's number among those of its host."""
        hosts = self.allgather(socket.gethostname())
        return hosts[: self.rank].count(hosts[self.rank])


def meet(place: JobPlace, folder: Path) -> World:
    """Meet all other ranks, in a ``folder`` that all share if they have no address to meet at.

    Raises:
        OSError: The folder cannot be written to.
        MeetingError: They did not come.
    """
    from torch import distributed

    how: dict[str, Any] = {"init_method": "env://"}
    if not place.by_address:
        folder.mkdir(parents=True, exist_ok=True)
        # Not the file of another job: Open MPI names each one; all ranks of Hydra on a host have
        # one parent.
        job = os.environ.get("PMIX_NAMESPACE", os.getppid())
        how = {"store": distributed.FileStore(str(folder / f".torch-meeting-{job}"), place.size)}
    try:
        timeout = timedelta(seconds=PATIENCE_S)
        distributed.init_process_group(
            "gloo", rank=place.rank, world_size=place.size, timeout=timeout, **how
        )
    except RuntimeError as error:
        (reason, *_) = str(error).splitlines() or [type(error).__name__]
        raise MeetingError(f"the {place.size} ranks did not meet: {reason}") from error
    return World(place.rank, place.size)
