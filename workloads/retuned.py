"""How the trainers let a study change their setting while they run.

It is the one place that asks for ``tuner``: in an interpreter that has none the trainers run as
they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

L = TypeVar("L")


class Alone:
    """A session of nobody's."""

    @staticmethod
    def step() -> None:
        """An iteration has ended."""

    @staticmethod
    def more() -> bool:
        """Whether to go on beyond the end."""
        return False


def session() -> Any:
    """What a loop of one's own tells of its iterations."""
    live = _live()
    return Alone() if live is None else live.session()


def chainer(trainer: Any, communicator: Callable[[str], Any]) -> None:
    """Extend a Chainer trainer.

    Args:
        trainer: It.
        communicator: Makes ChainerMN's of a name.
    """
    live = _live()
    if live is not None:
        trainer.extend(live.ChainerExtension(communicator))


def ppe(manager: Any) -> None:
    """Extend a manager of pytorch-pfn-extras."""
    live = _live()
    if live is not None:
        manager.extend(live.PpeExtension())


def loader(found: L, **of_workers: Any) -> L:
    """The DataLoader of the training; with ``of_workers`` it would have been made with workers."""
    live = _live()
    if live is None:
        return found
    wrapped: L = live.torch_loader(found, **of_workers)
    return wrapped


def _live() -> Any:
    try:
        from tuner import live
    except ImportError:  # the trainer's own interpreter need not have it
        return None
    return live
