"""The communicator of ChainerMN's optimizers, changed between two updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tuner.live.client.loop import Agent

#: The knob, as the studies call it.
COMMUNICATOR = "communicator"

_SUFFIX = "_communicator"


class Exchange:
    """Puts other communicators over the same ranks into multi-node optimizers.

    Each is made once: a study comes back to it, and MPI's and NCCL's own are few.

    Args:
        optimizers: ChainerMN's multi-node optimizers, which share one.
        make: Makes a communicator of a name.
    """

    def __init__(self, optimizers: Sequence[Any], make: Callable[[str], Any] | None = None) -> None:
        self._optimizers = optimizers
        self._make = make or self._created
        self._now = self._started = optimizers[0].communicator
        self._made = {name_of(self._started): self._started}

    @staticmethod
    def fits(optimizers: Sequence[Any]) -> bool:
        """Whether their communicator can be changed: not where one exchanges in the background."""
        return all(type(each).__name__ == "_MultiNodeOptimizer" for each in optimizers) and (
            len({id(each.communicator) for each in optimizers}) == 1
        )

    def offer(self, agent: Agent) -> None:
        """Offer the knob."""
        agent.offer(COMMUNICATOR, self.apply, self.read)

    def apply(self, name: str | None) -> None:
        """Exchange by the communicator of this name from the next update on; ``None``: the first.

        Every rank has to do it in the same iteration: making one is a meeting of all.
        """
        if name is None:
            self._put(self._started)
            return
        if name not in self._made:
            self._made[name] = self._make(name)
        self._put(self._made[name])

    def read(self) -> str:
        """The name of the one in force."""
        return name_of(self._now)

    def _put(self, communicator: Any) -> None:
        self._now = communicator
        for optimizer in self._optimizers:
            # Its own __setattr__ hands everything on to the optimizer inside.
            object.__setattr__(optimizer, "communicator", communicator)

    def _created(self, name: str) -> Any:
        from chainermn import create_communicator

        return create_communicator(name, mpi_comm=self._started.mpi_comm)


def name_of(communicator: Any) -> str:
    """What ``create_communicator`` calls it: ``naive`` of ``….naive_communicator``."""
    return type(communicator).__module__.rpartition(".")[2].removesuffix(_SUFFIX)
