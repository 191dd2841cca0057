"""Launches as they would have been recorded, for the tests of what explains them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.study_samples import SPEC
from tuner.model import (
    BASELINE,
    Finished,
    Load,
    Observation,
    Outcome,
    PhaseShare,
    Progress,
    RankView,
    Setting,
    StudySpec,
    Telemetry,
    Track,
)
from tuner.results.explain import Diagnosis, explain

#: Of a core's time: running, waiting for a CPU, asleep.
WORK = (1.0, 0.0, 0.0)


def track(rank: int | None, **columns: float | None) -> Track:
    """The same values at two moments."""
    times_s = (0.5, 1.0)
    return Track("node1", rank, times_s, {name: (value,) * 2 for name, value in columns.items()})


def rank(number: int, own: float = 1.0, queue: float = 0.0, **columns: float | None) -> Track:
    """A rank that used ``own`` cores."""
    return track(
        number,
        **{"own_user_cores": own, "own_system_cores": 0.0, "own_queue_threads": queue, **columns},
    )


def ranks(
    number: int, own: float = 1.0, queue: float = 0.0, **columns: float | None
) -> list[Track]:
    """So many ranks that are alike."""
    return [rank(n, own, queue, **columns) for n in range(number)]


def host(busy: float = 2.0, **columns: float | None) -> Track:
    """The host with ``busy`` cores used."""
    return track(None, **{"user_cores": busy, "system_cores": 0.0, "others_cores": 0.0, **columns})


STEP = "train.py:5 step"


def phases(number: int, where: str = STEP, **parts: tuple[float, float, float]) -> list[PhaseShare]:
    """The phases of a rank: (running, queued, blocked) of each."""
    return [PhaseShare(number, phase, sum(each), *each, where) for phase, each in parts.items()]


def of_all(number: int, **parts: tuple[float, float, float]) -> list[PhaseShare]:
    """The same phases of so many ranks."""
    return [share for n in range(number) for share in phases(n, STEP, **parts)]


def views(number: int, children: int = 0, *, opencv: bool = False) -> list[RankView]:
    """So many ranks, each with so many child processes."""
    return [RankView(n, 1, children, (), opencv_loaded=opencv) for n in range(number)]


def verdict(
    tracks: Sequence[Track] = (),
    shares: Sequence[PhaseShare] = (),
    *,
    load: Load | None = None,
    views: Sequence[RankView] = (),
    setting: Setting = BASELINE,
    spec: StudySpec = SPEC,
    progress: tuple[Progress, ...] = (),
) -> Diagnosis:
    """What is said of a launch with this record."""
    outcome = Outcome(
        Finished(1.0, 10),
        1.5,
        0,
        progress,
        load=load,
        observation=Observation(tuple(views)),
        telemetry=Telemetry(tuple(tracks), tuple(shares)),
    )
    return explain(outcome, setting, spec, spec.machine)
