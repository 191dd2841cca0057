"""One launch, followed from its empty folder to its `Outcome`; nothing of it is left running."""

from tuner.launch.trial.follower import (
    JUDGED_ENTRIES,
    MOST_OUTPUT,
    SAMPLE_S,
    TICK_S,
    Ended,
    Follower,
)
from tuner.launch.trial.launching import Begun, begin, ignore, run, sampler

__all__ = [
    "JUDGED_ENTRIES",
    "MOST_OUTPUT",
    "SAMPLE_S",
    "TICK_S",
    "Begun",
    "Ended",
    "Follower",
    "begin",
    "ignore",
    "run",
    "sampler",
]
