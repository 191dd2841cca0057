"""One launch, in this order: `launching` begins it, `monitor` follows and stops it, `classifier`
says how it ended. Nothing of it is left running.
"""

from tuner.launch.trial.launching import RunningLaunch, begin, ignore, run, sampler
from tuner.launch.trial.monitor import (
    MOST_OUTPUT,
    SAMPLE_S,
    STOPPER_ENTRIES,
    TICK_S,
    Ended,
    LaunchMonitor,
)

__all__ = [
    "MOST_OUTPUT",
    "SAMPLE_S",
    "STOPPER_ENTRIES",
    "TICK_S",
    "Ended",
    "LaunchMonitor",
    "RunningLaunch",
    "begin",
    "ignore",
    "run",
    "sampler",
]
