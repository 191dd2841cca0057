"""How the launches of two studies by pairs are followed: as lines with the studies' names."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tuner.cli import console
from tuner.cli.tally import Tally
from tuner.model import StudySpec, wording
from tuner.study.events import Event, LaunchEnded, Note
from tuner.study.pairing import Pairs


def view(name: str, spec: StudySpec) -> Callable[[Event], None]:
    """Return what writes a line for each launch of a study that ended, and for each note."""
    tally = Tally(time.monotonic, spec)

    def show(event: Event) -> None:
        if isinstance(event, LaunchEnded | Note):
            text = event.text if isinstance(event, Note) else tally.ended_line(event)
            console.err(f"{name}: {text}")

    return show


def so_far(names: Sequence[str], pairs: Pairs) -> str:
    """``side by side: 3 pairs, new 1.20 times as fast as old (1.12 to 1.29)``."""
    (before, after), gain = names, pairs.gain
    number = wording.count(len(pairs.launches), "pair")
    times = f"{gain.ratio:.2f} times as fast as {before}"
    span = f" ({gain.low:.2f} to {gain.high:.2f})" if len(pairs.launches) > 1 else ""
    return f"{pairs.how}: {number}, {after} {times}{span}"
