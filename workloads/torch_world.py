"""The ranks of a PyTorch job: who they are, where they meet, and what they tell each other.

Under torchrun they meet at its own store, with ``MASTER_ADDR`` and ``MASTER_PORT`` at that
address. Otherwise rank 0 listens at a free port and writes it into a file in the folder that all
ranks share. No MPI is needed.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

MEETING = ".torch-meeting"

#: torchrun starts its ranks within seconds, an mpirun of many hosts within minutes.
PATIENCE_S = 300.0
#: A store that is there answers at once; the file of an earlier job names one that is gone.
_ANSWER_S = 5.0

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
    """Which rank this process is; by itself the only one."""
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
        """Every rank's object (of JSON), on every rank."""
        self.steps += 1
        self.store.set(f"{self.steps}/{self.rank}", json.dumps(sendobj))
        keys = [f"{self.steps}/{rank}" for rank in range(self.size)]
        return [json.loads(self.store.get(key)) for key in keys]

    def Barrier(self) -> None:  # noqa: N802 -- MPI's name
        """Wait for all."""
        self.allgather(None)

    def leave(self) -> None:
        """The last call: the store is rank 0's, and ends with it."""
        if self.rank > 0:
            self.store.set(f"left/{self.rank}", "")
            return
        with suppress(RuntimeError):  # one that has failed says nothing more
            others = [f"left/{rank}" for rank in range(1, self.size)]
            self.store.wait(others, timedelta(seconds=_ANSWER_S))

    def neighbours(self) -> tuple[int, int]:
        """This rank's number among those of its host, and how many they are."""
        hosts = self.allgather(socket.gethostname())
        own = hosts[self.rank]
        return hosts[: self.rank].count(own), hosts.count(own)


def meet(found: JobPlace, folder: Path) -> World:
    """Meet all other ranks.

    Args:
        found: What :func:`place` gave.
        folder: One that all ranks share, for ranks that have no address to meet at.

    Raises:
        OSError: The folder cannot be written to.
        MeetingError: They did not come.
    """
    from torch import distributed
    from torch.distributed.rendezvous import rendezvous

    try:
        if found.by_address:
            timeout = timedelta(seconds=PATIENCE_S)
            store, _, _ = next(rendezvous("env://", found.rank, found.size, timeout=timeout))
            # Beside the keys of torch's own, which uses the same store.
            return World(found.rank, found.size, distributed.PrefixStore("trainer", store))
        if found.size == 1:
            return World(0, 1, distributed.HashStore())
        store = _open(folder, found.size) if found.rank == 0 else _join(folder, found.size)
        world = World(found.rank, found.size, store)
        world.Barrier()
    except RuntimeError as error:
        (reason, *_) = str(error).splitlines() or [type(error).__name__]
        raise MeetingError(f"the {found.size} ranks did not meet: {reason}") from error
    if found.rank == 0:
        (folder / MEETING).unlink(missing_ok=True)
    return world


def _open(folder: Path, size: int) -> Any:
    """Listen, and write down where: whole at once, in the place of what an earlier job left."""
    from torch.distributed import TCPStore

    folder.mkdir(parents=True, exist_ok=True)
    store = TCPStore("localhost", 0, size, is_master=True, wait_for_workers=False)
    token = uuid.uuid4().hex
    store.set(token, "")
    draft = folder / f"{MEETING}-{token}"
    draft.write_text(json.dumps([socket.gethostname(), store.port, token]))
    draft.replace(folder / MEETING)
    return store


def _join(folder: Path, size: int) -> Any:
    """Wait for the file, and for a store at its address that has its token."""
    from torch.distributed import TCPStore

    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, NotADirectoryError, ValueError, RuntimeError):
            host, port, token = json.loads((folder / MEETING).read_text())
            name = "localhost" if host == socket.gethostname() else host
            store = TCPStore(
                *(name, port, size),
                is_master=False,
                timeout=timedelta(seconds=_ANSWER_S),
                wait_for_workers=False,
            )
            if store.check([token]):
                store.set_timeout(timedelta(seconds=PATIENCE_S))
                return store
        time.sleep(0.02)
    raise RuntimeError(f"rank 0 has not written {folder / MEETING} in {PATIENCE_S:.0f} s")
