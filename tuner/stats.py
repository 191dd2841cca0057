"""Estimates made of samples. Pure: no clock, no files."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from tuner.model import Failed, FailureKind, LaunchRecord, Measurement, Purpose, Sample, Setting

#: Scales the median absolute deviation to the standard deviation of a normal distribution
#: (1 / Phi^-1(3/4); Rousseeuw & Croux, JASA 88, 1993).
MAD_TO_SD = 1.4826

#: The purposes whose settings count against ``--trials``.
TRIALS = frozenset({Purpose.GUESS, Purpose.SEARCH})


def estimate_s(samples: Sequence[Sample]) -> float | None:
    """The median in seconds, ``None`` without samples: one slow run in three moves it little."""
    return statistics.median(s.elapsed_s for s in samples) if samples else None


def spread_s(samples: Sequence[Sample]) -> float | None:
    """The ± beside a median: scaled median absolute deviation, ``None`` below two samples."""
    if len(samples) < 2:
        return None
    middle = statistics.median(s.elapsed_s for s in samples)
    return MAD_TO_SD * statistics.median(abs(s.elapsed_s - middle) for s in samples)


def was_interrupted(record: LaunchRecord) -> bool:
    """True where the launch was ended from outside: it says nothing about its setting."""
    ending = record.outcome.ending
    return isinstance(ending, Failed) and ending.kind is FailureKind.INTERRUPTED


def counted(records: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    """The launches that say something: neither thrown away nor interrupted."""
    return [r for r in records if r.purpose is not Purpose.WARM_UP and not was_interrupted(r)]


def trials(records: Iterable[LaunchRecord]) -> int:
    """Distinct settings asked for by guesses and search."""
    return len({r.setting for r in counted(records) if r.purpose in TRIALS})


def failures(records: Iterable[LaunchRecord]) -> int:
    """Launches that gave no value, warm-ups included, interrupted ones not."""
    return sum(isinstance(r.outcome.ending, Failed) and not was_interrupted(r) for r in records)


def measurements(
    records: Iterable[LaunchRecord], canonical: Callable[[Setting], Setting]
) -> list[Measurement]:
    """Pool launches of settings that come to the same, in the order of their first launch.

    Args:
        records: Launches of one study; warm-ups and interrupted ones are left out.
        canonical: Maps a setting to the one form it shares with all that come to the same.
    """
    groups: dict[Setting, list[LaunchRecord]] = {}
    for record in counted(records):
        groups.setdefault(canonical(record.setting), []).append(record)
    return [_measurement(setting, group) for setting, group in groups.items()]


def _measurement(setting: Setting, group: Sequence[LaunchRecord]) -> Measurement:
    samples = tuple(s for record in group for s in record.outcome.samples)
    endings = [record.outcome.ending for record in group]
    failure = next((e for e in endings if isinstance(e, Failed)), None)
    return Measurement(
        setting=setting,
        samples=samples,
        elapsed_s=estimate_s(samples),
        launches=len(group),
        failure=None if samples else failure,
    )


def best(candidates: Iterable[Measurement]) -> Measurement | None:
    """The fastest; of equally fast ones the smaller setting, which takes fewer resources."""
    measured = [m for m in candidates if m.elapsed_s is not None]
    return min(measured, key=_rank, default=None)


def _rank(measurement: Measurement) -> tuple[float, int, int, str]:
    assert measurement.elapsed_s is not None
    items = measurement.setting.items
    numbers = sum(value for _, value in items if isinstance(value, int))
    return measurement.elapsed_s, numbers, len(items), measurement.setting.to_json()
