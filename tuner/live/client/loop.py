"""What a program tells the agent in its rank: the knobs it can change, and its iterations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

#: The agent's module, which the probe loads into the ranks of a job that is retuned.
AGENT = "tune_rank_live"

Apply = Callable[[Any], object]
Read = Callable[[], Any]


class Agent(Protocol):
    """What applies the settings in a rank; every rank makes the same calls."""

    def offer(
        self,
        knob: str,
        apply: Apply,
        read: Read | None = None,
        settle: Callable[[], object] | None = None,
    ) -> None:
        """Offer a knob, before the first iteration.

        Args:
            knob: Its name.
            apply: Takes a value at an iteration boundary. Where the job's first value is asked for,
                that is what ``read`` gave then; without ``read`` it is ``None``.
            read: The value in force, asked for after a switch.
            settle: Called once behind every ``apply`` of a switch: knobs may share it.
        """
        ...

    def step(self, mark: bool = False) -> None:
        """An iteration boundary; ``mark``: what ended is not to be compared with others."""
        ...

    def more(self) -> bool:
        """Whether the job is wanted beyond its end; alike on all ranks."""
        ...

    def over(self) -> None:
        """The program is at its own end, and what it logs of its run is written."""
        ...


def find_agent() -> Agent | None:
    """The agent in this process; ``None`` outside a live study and in a loader worker."""
    module: Any = sys.modules.get(AGENT)
    agent: Agent | None = None if module is None else module.agent()
    return agent


class Session:
    """A program's own loop, seen by the study that runs it; without one nothing happens."""

    def __init__(self, agent: Agent | None) -> None:
        self._agent = agent

    @property
    def active(self) -> bool:
        """Whether a study may change settings while this program runs."""
        return self._agent is not None

    def on(self, knob: str, apply: Apply, read: Read | None = None) -> None:
        """Offer a knob that the program itself can change. Call it before the first step.

        Args:
            knob: Its name in the study.
            apply: Called with a value between two iterations, on every rank in the same one. What
                it raises is reported with the setting; the old value should then be in force.
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
        """Whether to go on where the program would end: alike on all ranks."""
        return self._agent is not None and self._agent.more()


def session() -> Session:
    """The session of this process."""
    return Session(find_agent())
