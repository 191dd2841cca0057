"""What stands for a secret, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable

#: Stands where a secret was. A text that had it from the start is taken for one that hides one.
HIDDEN = "***"

#: Collects what was hidden.
Found = Callable[[str], object]
