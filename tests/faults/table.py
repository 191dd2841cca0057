"""The table of faults: ``python -m tests.faults.table FILE …``, of what tests and soaks wrote.

A row for each fault: what was expected, what was seen and how often, how often it was run, and
how often something was wrong. In Markdown.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEAD = ("fault", "expected", "seen", "times run", "wrong")


def table(reports: Iterable[dict[str, Any]]) -> str:
    """The rows, in the order in which the faults first came."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for report in reports:
        groups.setdefault(report["fault"], []).append(report)
    rows = [_row(name, group) for name, group in groups.items()]
    total = sum(map(len, groups.values()))
    wrong = sum(bool(report["problems"]) for group in groups.values() for report in group)
    rows.append((f"{len(groups)} faults", "", "", str(total), str(wrong)))
    lines = [HEAD, tuple("---" for _ in HEAD), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(name: str, group: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    expected = dict.fromkeys(kind for report in group for kind in report["expected"])
    seen = Counter(report["seen"] for report in group)
    words = [kind if len(seen) == 1 else f"{kind} ({n})" for kind, n in seen.most_common()]
    wrong = sum(bool(report["problems"]) for report in group)
    return name, " or ".join(expected), ", ".join(words), str(len(group)), str(wrong)


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The reports of all files, one a line."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


if __name__ == "__main__":
    sys.stdout.write(table(read(map(Path, sys.argv[1:]))) + "\n")
