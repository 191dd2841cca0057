"""Logs as LogReport writes them, in each of its formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import yaml

Entry = dict[str, Any]


def entries(*elapsed: float) -> list[Entry]:
    """A log of an entry an iteration, with these times."""
    return [{"iteration": n, "elapsed_time": each} for n, each in enumerate(elapsed, start=1)]


def as_lines(log: Sequence[Entry]) -> str:
    """The log as JSON lines."""
    return "".join(json.dumps(entry) + "\n" for entry in log)


#: How a log of each name is written.
FORMATS: dict[str, Callable[[Sequence[Entry]], str]] = {
    "log": lambda log: json.dumps(log, indent=4),
    "log.json": json.dumps,
    "log.jsonl": as_lines,
    "log.yaml": yaml.safe_dump,
}
