"""A stop trigger that lets a training go on while the study wants more of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Until:
    """Fires where another trigger has fired and nothing more is wanted.

    Args:
        trigger: The program's own stop trigger, which may fire only once.
        more: Whether to go on.
        between: Where the loop can end once the program's own end is behind it.
        over: Called at that end.
    """

    def __init__(
        self,
        trigger: Callable[[Any], Any],
        more: Callable[[], bool],
        between: Callable[[Any], bool] = lambda _: True,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._trigger = trigger
        self._more = more
        self._between = between
        self._over = over
        self._reached = False

    def __call__(self, trainer: Any) -> bool:
        """Whether to stop."""
        if bool(self._trigger(trainer)) and not self._reached:
            self._reached = True
            self._over()
            return not self._more()
        return self._reached and not self._more() and self._between(trainer)

    def __getattr__(self, name: str) -> Any:
        """What others ask of a stop trigger: its length, its state for a snapshot."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._trigger, name)
