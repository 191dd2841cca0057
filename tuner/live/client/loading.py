"""The knobs of a loader: gathered in a switch, and brought into force together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tuner.live.client.loop import Agent

#: The knobs, as the studies call them.
WORKERS, PREFETCH, OPENCV, PINNED = "iterator_workers", "prefetch", "opencv_threads", "pin_memory"


class Loading:
    """What a loader runs with, and what it is asked for.

    Args:
        started: The values at the job's start, by knob.
        renew: Starts the loader anew with other values, or raises and leaves it as it was.
    """

    def __init__(
        self, started: Mapping[str, Any], renew: Callable[[Mapping[str, Any]], object]
    ) -> None:
        self._started = dict(started)
        self.now = dict(started)
        self._wanted = dict(started)
        self._renew = renew

    def offer(self, agent: Agent) -> None:
        """Offer all of its knobs."""
        for knob in self._started:
            agent.offer(knob, partial(self._want, knob), partial(self._read, knob), self._settle)

    def _want(self, knob: str, value: Any) -> None:
        self._wanted[knob] = self._started[knob] if value is None else value

    def _read(self, knob: str) -> Any:
        return self.now[knob]

    def _settle(self) -> None:
        wanted, self._wanted = self._wanted, dict(self.now)
        if wanted != self.now:
            self._renew(wanted)
            self.now, self._wanted = wanted, dict(wanted)
