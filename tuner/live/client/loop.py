"""What a program tells the agent in its rank: its knobs, its iterations, and its end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

#: The agent's module, which the probe loads into the ranks of a job that is measured live.
AGENT = "tune_rank_live"

Apply = Callable[[Any], object]
Read = Callable[[], Any]


class RankAgent(Protocol):
    """What applies the settings in a rank (`rank_live.Agent`); every rank makes the same calls."""

    def offer(
        self,
        knob: str,
        apply: Apply,
        read: Read | None = None,
        settle: Callable[[], object] | None = None,
    ) -> None:
        """As :meth:`Session.on`; ``settle``, which knobs may share, is called once after all."""

    def step(self, mark: bool = False) -> None:
        """As :meth:`Session.step`."""

    def more(self) -> bool:
        """As :meth:`Session.more`."""
        ...

    def over(self) -> None:
        """The program is at its own end, and has written what it logs of its run."""


def find_agent() -> RankAgent | None:
    """The agent in this process; ``None`` outside a live study and in a loader worker."""
    module: Any = sys.modules.get(AGENT)
    agent: RankAgent | None = None if module is None else module.agent()
    return agent


class Session:
    """A program's own loop, as a study measures it; outside of one nothing happens."""

    def __init__(self, agent: RankAgent | None) -> None:
        self._agent = agent

    @property
    def active(self) -> bool:
        """Whether a study may change settings while this program runs."""
        return self._agent is not None

    def on(self, knob: str, apply: Apply, read: Read | None = None) -> None:
        """Offer a knob that the program itself can change. Call it before the first step.

        Args:
            knob: Its name in the study.
            apply: Called with a value between two iterations, on every rank in the same one. If it
                raises, the job is ended, and another one started with the value.
            read: Gives the value in force. It is asked before the first switch, too, for what the
                program started with; without it ``apply(None)`` has to bring that back.
        """
        if self._agent is not None:
            self._agent.offer(knob, apply, read)

    def step(self, *, mark: bool = False) -> None:
        """Say that an iteration has ended; the settings may change in this call.

        Args:
            mark: There was something in it that the others have not, an evaluation or an epoch's
                start: its time is not counted.
        """
        if self._agent is not None:
            self._agent.step(mark)

    def more(self) -> bool:
        """Whether to go on beyond the program's own end: alike on all ranks."""
        return self._agent is not None and self._agent.more()


def session() -> Session:
    """The session of this process."""
    return Session(find_agent())


class Until:
    """A stop trigger that lets a training go on as long as the study wants more of it.

    Args:
        trigger: The program's own stop trigger, which may fire only once.
        agent: Says whether to go on, and hears of the program's own end.
        between: Whether the loop can end here, after the program's own end.
    """

    def __init__(
        self,
        trigger: Callable[[Any], Any],
        agent: RankAgent,
        between: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self._trigger, self._agent, self._between = trigger, agent, between
        self._reached = False

    def __call__(self, trainer: Any) -> bool:
        """Whether to stop."""
        if bool(self._trigger(trainer)) and not self._reached:
            self._reached = True
            self._agent.over()
            return not self._agent.more()
        return self._reached and not self._agent.more() and self._between(trainer)

    def __getattr__(self, name: str) -> Any:
        """What others ask of a stop trigger: its length, its state for a snapshot."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._trigger, name)
