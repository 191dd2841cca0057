"""One launch, followed from its empty folder to its `Outcome`; nothing of it is left running."""

from tuner.trial.follower import JUDGED_ENTRIES, SAMPLE_S, TICK_S
from tuner.trial.launching import run

__all__ = ["JUDGED_ENTRIES", "SAMPLE_S", "TICK_S", "run"]
