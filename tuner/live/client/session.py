"""Lets a program tell the agent in its rank about its knobs, its iterations, and its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Mapping, Protocol

#: The agent's module, which the probe loads into the ranks of a job that is measured live.
AGENT = "tune_rank_live"

Values = Mapping[str, Any]


class RankAgent(Protocol):
    """Applies the settings in a rank (`rank_live.Agent`); every rank makes the same calls."""

    def offer(
        self,
        names: Sequence[str],
        apply: Callable[[Values], object],
        read: Callable[[], Values] | None = None,
    ) -> None:
        """Offer knobs that are changed and read together, by their names in the study."""

    def step(self, mark: bool = False) -> None:
        """Take note that an iteration has ended, and change the setting if a switch is due."""

    def more(self) -> bool:
        """Return whether to go on beyond the program's own end."""
        ...


def find_agent() -> RankAgent | None:
    """Return the agent in this process; ``None`` outside a live study and in a loader worker."""
    module: Any = sys.modules.get(AGENT)
    agent: RankAgent | None = None if module is None else module.agent()
    return agent


class Session:
    """A program's own loop, as a study measures it; outside a study nothing happens."""

    def __init__(self, agent: RankAgent | None) -> None:
        self._agent = agent

    @property
    def active(self) -> bool:
        """Whether a study may change settings while this program runs."""
        return self._agent is not None

    def on(
        self, knob: str, apply: Callable[[Any], object], read: Callable[[], Any] | None = None
    ) -> None:
        """Offer a knob of the study that the program itself can change, before the first step.

        ``apply`` is called with a value between two iterations, the same ones on every rank. If it
        raises, the job is ended, and another one started with the value. ``read`` gives the value
        in force, and before the first switch the one that the program started with; without
        ``read``, ``apply(None)`` has to bring that one back.
        """
        if self._agent is not None:
            read_all = None if read is None else lambda: {knob: read()}
            self._agent.offer((knob,), lambda values: apply(values[knob]), read_all)

    def step(self, *, mark: bool = False) -> None:
        """Say that an iteration has ended; the settings may change in this call.

        The time of an iteration with a ``mark`` is not counted: it had, say, an evaluation in it.
        """
        if self._agent is not None:
            self._agent.step(mark)

    def more(self) -> bool:
        """Return whether to go on beyond the program's own end: alike on all ranks."""
        return self._agent is not None and self._agent.more()


def session() -> Session:
    """Return the session of this process."""
    return Session(find_agent())


class Until:
    """A stop trigger that lets a training go on as long as the study wants more of it.

    The program's own `trigger` may fire only once. If the study wants no more then, the training
    ends there, else later where it `may_end`, between two epochs for instance.
    """

    def __init__(
        self,
        trigger: Callable[[Any], Any],
        agent: RankAgent,
        may_end: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self._trigger, self._agent, self._may_end = trigger, agent, may_end
        self._has_fired = False

    def __call__(self, trainer: Any) -> bool:
        """Return whether to stop."""
        went_on = self._has_fired
        self._has_fired |= bool(self._trigger(trainer))
        if not self._has_fired or self._agent.more():
            return False
        return not went_on or self._may_end(trainer)

    def __getattr__(self, name: str) -> Any:
        """Hand on what others ask of a stop trigger: its length, its state for a snapshot."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._trigger, name)
