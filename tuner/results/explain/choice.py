"""Which launches of a study are explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuner.model import Finished, LaunchRecord, Setting, Stopped
from tuner.stats import estimates

Canonical = Callable[[Setting], Setting]


def typical(
    records: Sequence[LaunchRecord], setting: Setting, canonical: Canonical
) -> LaunchRecord | None:
    """The median run of a setting; of one that never came to its end the longest look.

    Args:
        records: Of one study; launches that do not count are passed over, and so are windows of
            a running job, of which less was recorded, where there is a launch.
        setting: In its canonical form.
        canonical: Maps a setting to it.
    """
    mine = [each for each in estimates.counted(records) if canonical(each.setting) == setting]
    return middle([each for each in mine if each.outcome.window is None] or mine)


def middle(records: Sequence[LaunchRecord]) -> LaunchRecord | None:
    """The median run by its time; the upper one of two."""
    timed = sorted(
        ((record.outcome.ending.elapsed_s, record.number, record) for record in records
         if isinstance(record.outcome.ending, Finished)),
        key=lambda each: each[:2],
    )  # fmt: skip
    if timed:
        return timed[len(timed) // 2][2]
    cut = [record for record in records if isinstance(record.outcome.ending, Stopped)]
    return max(cut or records, key=lambda record: record.outcome.wall_s, default=None)
