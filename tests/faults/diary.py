"""What a bench notes on the way; a file, as ``tune`` may run in another process and be killed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Diary:
    """Lines of (word, values)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, word: str, *values: Any) -> None:
        """One more line, there at once."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, json.dumps([word, *values]).encode() + b"\n")
        finally:
            os.close(fd)

    def read(self, word: str) -> list[Any]:
        """The values of all lines with that word; of one value itself."""
        if not self.path.exists():
            return []
        rows = [json.loads(line) for line in self.path.read_text().splitlines()]
        found = [row[1:] for row in rows if row[0] == word]
        return [values[0] if len(values) == 1 else tuple(values) for values in found]
