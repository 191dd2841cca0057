"""Does the program's log count the iterations that its ranks were seen to make? Pure.

A window gives the pace of what the ranks count, a launch the number that its log counts. Where an
optimizer steps once in four batches, or twice, the one does not go with the other: every window
would be scaled by a wrong number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

#: The first ones may be told apart otherwise, and a step be left out now and then …
LEAST = 2
#: … but no larger share of them.
SHARE = 0.1

_WHERE = {"torch": "at the optimizer's step", "chainer": "at the updater's update"}
_HINT = "session.step() says what an iteration is"


def miscounted(logged: Sequence[int], seen: int, hook: str) -> str:
    """What to say of a whole run whose log counts others than its ranks; empty where it does not.

    Args:
        logged: The iterations of the log's entries, the first one's first; none: it has not any.
        seen: How many the ranks came to by its end.
        hook: What has counted them, as the job said.
    """
    if not logged or _agree(logged, seen):
        return ""
    where = f"were seen {_WHERE[hook]} ({_HINT})" if hook in _WHERE else "ended at session.step()"
    return f"its log counts {logged[-1]} iterations where {seen} {where}"


def _agree(logged: Sequence[int], seen: int) -> bool:
    last = logged[-1]
    if abs(seen - last) <= max(LEAST, SHARE * last):
        return True
    # Those behind the last entry are in no log: another entry would have come with as many as
    # there were between two.
    return last < seen < last + max(after - before for before, after in pairwise((0, *logged)))
