"""The extension that lets a Chainer trainer be retuned while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tuner.live.client.chainer_exchange import Exchange
from tuner.live.client.chainer_iterator import LiveIterator
from tuner.live.client.loop import find_agent
from tuner.live.client.until import Until


class ChainerExtension:
    """Lets a study change the loader's workers and the communicator of a Chainer trainer.

    ::

        from tuner import live

        trainer.extend(live.ChainerExtension())
        trainer.run()

    It offers what the trainer has:

    - ``iterator_workers``, ``prefetch`` and ``opencv_threads`` (those of the workers) where the
      updater's main iterator is a MultiprocessIterator. The iterator goes on at the same sample of
      the same epoch in the same order; its old workers are gone before new ones start, and if these
      cannot, the old number starts again.
    - ``communicator`` where the updater's optimizers are multi-node optimizers of ChainerMN
      without double buffering.

    And the trainer goes on beyond its stop trigger while the study wants it to. Outside a study
    that retunes running jobs it does nothing.

    Args:
        communicator: Makes ChainerMN's communicator of a name, where
            ``chainermn.create_communicator(name, mpi_comm=…)`` alone is not what the program does.
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
        iterator = main_iterator(trainer.updater)
        if LiveIterator.fits(iterator):
            LiveIterator(iterator).offer(agent)
        optimizers = list(trainer.updater.get_all_optimizers().values())
        if Exchange.fits(optimizers):
            Exchange(optimizers, self._communicator).offer(agent)
        trainer.stop_trigger = Until(trainer.stop_trigger, agent.more, over=agent.over)


def main_iterator(updater: Any) -> Any:
    """What feeds the training; ``None`` where the updater, a program's own, does not tell."""
    with suppress(AttributeError, KeyError):
        return updater.get_iterator("main")
    return None
