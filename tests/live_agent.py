"""A stand-in for the agent in a rank, for the tests of what a program does with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from tuner.live.client.loop import AGENT


class FakeAgent:
    """Applies settings when the test says so; it notes the steps."""

    def __init__(self) -> None:
        self.offered: dict[str, tuple[Callable[[Any], object], Any, Any]] = {}
        self.steps: list[bool] = []
        self.overs = 0
        self.wanted = 0  # how often more() is still true
        self.started: dict[str, Any] = {}

    def offer(
        self,
        knob: str,
        apply: Callable[[Any], object],
        read: Callable[[], Any] | None = None,
        settle: Callable[[], object] | None = None,
    ) -> None:
        self.offered[knob] = apply, read, settle
        self.started[knob] = read() if read is not None else None

    def step(self, mark: bool = False) -> None:
        self.steps.append(mark)

    def over(self) -> None:
        self.overs += 1

    def more(self) -> bool:
        self.wanted -= 1
        return self.wanted >= 0

    def switch(self, **values: Any) -> list[str]:
        """What went wrong."""
        errors, settles = [], []
        for knob, value in values.items():
            apply, _, settle = self.offered[knob]
            apply(self.started[knob] if value is None else value)
            if settle is not None and settle not in settles:
                settles.append(settle)
        for settle in settles:
            try:
                settle()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
        return errors

    def read(self) -> dict[str, Any]:
        return {knob: read() for knob, (_, read, _) in self.offered.items() if read is not None}


def install(monkeypatch: pytest.MonkeyPatch, agent: FakeAgent) -> FakeAgent:
    """Let this process be a rank of a live study."""
    module = ModuleType(AGENT)
    module.agent = lambda: agent  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, AGENT, module)
    return agent


@contextmanager
def refusing(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, error: Exception
) -> Iterator[None]:
    """What starts a process or a thread fails, at the start of this number."""
    really, count = getattr(owner, name), 0

    def start(started: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            raise error
        return really(started)

    with monkeypatch.context() as failing:
        failing.setattr(owner, name, staticmethod(start) if name == "_Popen" else start)
        yield
