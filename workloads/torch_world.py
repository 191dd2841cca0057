"""The ranks of a PyTorch job: who they are, where they meet, and what they tell each other.

Under torchrun they meet at its own store, with ``MASTER_ADDR`` and ``MASTER_PORT`` at that
address. Otherwise their store is a file in a folder that all ranks share. No MPI is needed.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

#: torchrun starts its ranks within seconds, an mpirun of many hosts within minutes.
PATIENCE_S = 300.0
_LAST_S = 5.0

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


@dataclass
class World:
    """All ranks, by a store that each can write to; every rank makes the same calls."""

    rank: int
    size: int
    store: Any
    steps: int = 0

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return every rank's object (of JSON), on every rank."""
        self.steps += 1
        self.store.set(f"{self.steps}/{self.rank}", json.dumps(sendobj))
        keys = [f"{self.steps}/{rank}" for rank in range(self.size)]
        return [json.loads(self.store.get(key)) for key in keys]

    def Barrier(self) -> None:  # noqa: N802 -- MPI's name
        """Wait for all."""
        self.allgather(None)

    def leave(self) -> None:
        """Leave, as the last call: rank 0 waits for the others, since the store may end with it."""
        if self.rank > 0:
            self.store.set(f"left/{self.rank}", "")
            return
        with suppress(RuntimeError):  # one that has failed says nothing more
            others = [f"left/{rank}" for rank in range(1, self.size)]
            self.store.wait(others, timedelta(seconds=_LAST_S))

    def local_rank(self) -> int:
        """Return this rank's number among those of its host."""
        hosts = self.allgather(socket.gethostname())
        return hosts[: self.rank].count(hosts[self.rank])


def meet(found: JobPlace, folder: Path) -> World:
    """Meet all other ranks, in a ``folder`` that all share if they have no address to meet at.

    Raises:
        OSError: The folder cannot be written to.
        MeetingError: They did not come.
    """
    from torch import distributed
    from torch.distributed.rendezvous import rendezvous

    timeout = timedelta(seconds=PATIENCE_S)
    try:
        if found.by_address:
            store, _, _ = next(rendezvous("env://", found.rank, found.size, timeout=timeout))
        elif found.size == 1:
            store = distributed.HashStore()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            # Not the file of another job: Open MPI names each one; all ranks of Hydra on a host,
            # and all threads of a test, have one parent.
            job = os.environ.get("PMIX_NAMESPACE", os.getppid())
            store = distributed.FileStore(str(folder / f".torch-meeting-{job}"), found.size)
            store.set_timeout(timeout)
        # Beside the keys of torch's own, which uses the same store.
        world = World(found.rank, found.size, distributed.PrefixStore("trainer", store))
        world.Barrier()
    except RuntimeError as error:
        (reason, *_) = str(error).splitlines() or [type(error).__name__]
        raise MeetingError(f"the {found.size} ranks did not meet: {reason}") from error
    return world
