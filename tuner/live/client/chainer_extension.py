"""The extension by which a Chainer trainer takes part in live measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tuner.live.client.chainer_iterator import LiveIterator
from tuner.live.client.loop import Until, find_agent

#: The knob, as the studies call it.
COMMUNICATOR = "communicator"


class ChainerExtension:
    """Lets a study change the loader's workers and the communicator of a Chainer trainer.

    ::

        from tuner import live

        trainer.extend(live.ChainerExtension())
        trainer.run()

    It offers what the trainer has:

    - ``iterator_workers``, ``prefetch`` and ``opencv_threads`` (those of the workers) if the
      updater's main iterator is a MultiprocessIterator. The iterator goes on at the same sample of
      the same epoch in the same order; its old workers are gone before new ones start, and if these
      cannot, the old number starts again.
    - ``communicator`` if the updater's optimizers are multi-node optimizers of ChainerMN without
      double buffering.

    And the trainer goes on beyond its stop trigger while the study wants it to. Outside live
    measurement it does nothing.

    Args:
        communicator: Makes ChainerMN's communicator of a name, if the program needs more than
            ``chainermn.create_communicator(name, mpi_comm=…)``.
    """

    default_name = "TuneLive"

    def __init__(self, communicator: Callable[[str], Any] | None = None) -> None:
        self._communicator = communicator

    @staticmethod
    def trigger(_: Any) -> bool:
        """Never: all is done between two updates, by the agent in the rank."""
        return False

    def __call__(self, trainer: Any) -> None:
        """Nothing."""

    def initialize(self, trainer: Any) -> None:
        """Offer the knobs, before the first update."""
        agent = find_agent()
        if agent is None:
            return
        iterator = None
        with suppress(AttributeError, KeyError):  # an updater of the program's own may not tell
            iterator = trainer.updater.get_iterator("main")
        if LiveIterator.fits(iterator):
            LiveIterator(iterator).knobs.offer(agent)
        optimizers = list(trainer.updater.get_all_optimizers().values())
        if Communicators.fits(optimizers):
            communicators = Communicators(optimizers, self._communicator)
            agent.offer(COMMUNICATOR, communicators.apply, communicators.read)
        trainer.stop_trigger = Until(trainer.stop_trigger, agent)


class Communicators:
    """Puts other communicators over the same ranks into multi-node optimizers.

    Each is made once: a study comes back to it, and MPI's and NCCL's own are few.

    Args:
        optimizers: ChainerMN's multi-node optimizers, which share one.
        make: Makes a communicator of a name.
    """

    def __init__(self, optimizers: Sequence[Any], make: Callable[[str], Any] | None = None) -> None:
        self._optimizers = optimizers
        self._make = make or self._create
        self._now = self._started = optimizers[0].communicator
        self._made = {_name_of(self._started): self._started}

    @staticmethod
    def fits(optimizers: Sequence[Any]) -> bool:
        """Whether their communicator can be changed: not if one exchanges in the background."""
        return all(type(each).__name__ == "_MultiNodeOptimizer" for each in optimizers) and (
            len({id(each.communicator) for each in optimizers}) == 1
        )

    def apply(self, name: str | None) -> None:
        """Exchange by the communicator of this name from the next update on; ``None``: the first.

        Every rank has to call it in the same iteration: to make one is a collective call.
        """
        if name is None:
            self._now = self._started
        else:
            if name not in self._made:
                self._made[name] = self._make(name)
            self._now = self._made[name]
        for optimizer in self._optimizers:
            # Its own __setattr__ hands everything on to the optimizer inside.
            object.__setattr__(optimizer, "communicator", self._now)

    def read(self) -> str:
        """The name of the one in force."""
        return _name_of(self._now)

    def _create(self, name: str) -> Any:
        from chainermn import create_communicator

        return create_communicator(name, mpi_comm=self._started.mpi_comm)


def _name_of(communicator: Any) -> str:
    """What ``create_communicator`` calls it: ``naive`` of ``….naive_communicator``."""
    return type(communicator).__module__.rpartition(".")[2].removesuffix("_communicator")
