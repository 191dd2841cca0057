"""The planted bottlenecks: each with the program that has it, and what it should be called."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bottlenecks import around
from tests.bottlenecks.around import Around
from tuner.results.explain import Cause


@dataclass(frozen=True)
class Planted:
    """One bottleneck.

    ``python`` are the options of ``inside/trainer.py``, ``c`` the arguments of
    ``inside/program.c`` after its log. ``subject`` is part of what the verdict names.
    """

    name: str
    cause: Cause
    python: str
    c: str = ""
    subject: str = ""
    around: Around = around.NOTHING
    mpirun: str = ""


PLANTED = (
    Planted("pure compute", Cause.CPU, "--work-ms 100 --iterations 30", "30 100 1 0 -1 0"),
    Planted(
        "CPU hogs beside",
        *(Cause.OTHERS, "--work-ms 60 --iterations 15", "15 60 1 0 -1 0"),
        subject="hog",
        around=around.HOGS,
    ),
    Planted(
        "too many BLAS threads",
        *(Cause.OWN_THREADS, "--matrix 900 --blas 8 --iterations 20", "20 20 8 0 -1 0"),
    ),
    Planted(
        "1 slow loader worker",
        *(Cause.LOADER, "--work-ms 10 --workers 1 --load-ms 90 --iterations 30"),
    ),
    Planted(
        "too many loader workers",
        *(Cause.WORKERS, "--work-ms 5 --workers 6 --worker-ms 100 --iterations 40"),
    ),
    Planted(
        "throttled control group",
        *(Cause.QUOTA, "--work-ms 40 --iterations 12", "12 40 1 0 -1 0"),
        around=around.QUOTA,
    ),
    Planted(
        "slow link",
        *(Cause.LINK, "--work-ms 10 --megabytes 1 --iterations 10", "10 10 1 1 -1 0"),
        around=around.LINK,
        mpirun="--mca btl self,tcp --mca pml ob1",  # the messages go by TCP
    ),
    Planted(
        "sleeping rank",
        *(Cause.STRAGGLER, "--work-ms 10 --sleepy 1 --sleep-ms 100 --iterations 30"),
        c="30 10 1 0 1 100",
        subject="rank 1",
    ),
)
