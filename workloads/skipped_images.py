"""Broken images, noted by the workers of a rank and counted by the rank.

Workers are processes that tell their rank nothing but examples: each appends a line to one
file, which an operating system does without mixing them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NAMED = 5  # the others are counted


@dataclass(frozen=True)
class Skipped:
    """The file in which the broken images of one rank are noted."""

    path: Path

    def clear(self) -> None:
        """Forget those of an earlier run."""
        self.path.unlink(missing_ok=True)

    def add(self, name: str, why: str) -> None:
        """Note one; where that fails (a full disk) training goes on."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(json.dumps([name, why]) + "\n")
        except OSError:
            return

    def read(self) -> dict[str, str]:
        """The reason for each, by its name."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        return dict(json.loads(line) for line in lines)


def summary(of_ranks: Iterable[dict[str, str]]) -> str | None:
    """How many images were left out, the first few by name; ``None``: none was."""
    reasons: dict[str, str] = {}
    for found in of_ranks:
        reasons.update(found)
    if not reasons:
        return None
    named = [f"{name}: {reasons[name]}" for name in sorted(reasons)[:NAMED]]
    more = len(reasons) - len(named)
    count = "1 broken image" if len(reasons) == 1 else f"{len(reasons)} broken images"
    return f"skipped: {count} ({'; '.join(named)}{f'; and {more} more' if more else ''})"
