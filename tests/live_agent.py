"""A stand-in for the agent in a rank, for the tests of what a program does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from tuner.live.client.session import AGENT


class FakeAgent:
    """Applies settings when the test says so; it notes the steps."""

    def __init__(self) -> None:
        self.groups: list[tuple[Sequence[str], Any, Any]] = []
        self.steps: list[bool] = []
        self.left = 0  # how often more() is still true
        self.started: dict[str, Any] = {}

    def offer(
        self,
        names: Sequence[str],
        apply: Callable[[Mapping[str, Any]], object],
        read: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        self.groups.append((names, apply, read))
        self.started |= dict.fromkeys(names) if read is None else read()

    def step(self, mark: bool = False) -> None:
        self.steps.append(mark)

    def more(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def switch(self, **values: Any) -> None:
        """Apply these; ``None`` is the value at the start."""
        for names, apply, _ in self.groups:
            own = {name: values[name] for name in names if name in values}
            if own:
                apply({k: self.started[k] if v is None else v for k, v in own.items()})

    def read(self) -> dict[str, Any]:
        """Return the values in force."""
        reads = [read() for _, _, read in self.groups if read is not None]
        return {name: value for values in reads for name, value in values.items()}


def install(monkeypatch: pytest.MonkeyPatch, agent: FakeAgent) -> FakeAgent:
    """Let this process be a rank of a live study."""
    module = ModuleType(AGENT)
    module.agent = lambda: agent  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, AGENT, module)
    return agent
