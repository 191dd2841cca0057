"""What comes next: a function of the launches so far, whoever asks and however often."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.study_surface import (
    BEST,
    CONFIRMED,
    CRASH,
    SPEC,
    capped,
    crash,
    nearly_flat,
    played,
    ran,
    record,
    surface,
)
from tuner.knobs.space import points
from tuner.model import (
    BASELINE,
    SHORTAGES,
    Effect,
    Ending,
    Failed,
    FailureKind,
    IntRange,
    Purpose,
    Setting,
    StudySpec,
    StudyState,
)
from tuner.study.findings import build
from tuner.study.history import History
from tuner.study.policy import SearchThenConfirm, Step, Stop

Time = Callable[[Setting], float | Ending]


def defaults_fail(setting: Setting) -> float | Ending:
    return crash(setting) if setting.is_baseline else nearly_flat(setting)


SURFACES: list[Time] = [nearly_flat, defaults_fail]


def steps(history: History) -> list[tuple[Purpose, Setting]]:
    return [(made.purpose, made.setting) for made in history.records]


def end(history: History) -> str:
    stop = SearchThenConfirm().next(history)
    assert isinstance(stop, Stop)
    return stop.reason


def small(threads: int, workers: int, spec: StudySpec = SPEC) -> StudySpec:
    highs = {"omp_threads": threads, "iterator_workers": workers}
    knobs = tuple(replace(k, domain=IntRange(1, highs[k.name])) for k in spec.knobs)
    return replace(spec, knobs=knobs, trials=50)


@pytest.mark.parametrize("time_s", SURFACES)
def test_what_was_interrupted_and_a_second_warm_up_change_nothing(time_s: Time) -> None:
    history = played(replace(CONFIRMED, trials=6), time_s)
    ended = replace(ran(1.0), ending=Failed(FailureKind.INTERRUPTED, "ended by the user"))
    for length, made in enumerate(history.records):
        before = history.records[:length]
        broken_off = record(length + 1, made.setting, made.purpose, replace(ended, wall_s=500.0))
        warm_up = record(length + 2, BEST, Purpose.WARM_UP, replace(ran(1.0), wall_s=500.0))
        again = SearchThenConfirm().next(history.with_records((*before, broken_off, warm_up)))
        assert again == SearchThenConfirm().next(history.with_records(before))


@pytest.mark.parametrize("kind", sorted(SHORTAGES))
def test_what_asks_for_more_than_what_ran_out_is_not_tried(kind: FailureKind) -> None:
    def time_s(setting: Setting) -> float | Ending:
        short = setting.as_dict().get("omp_threads", 1) != 1
        return Failed(kind, "too much") if short else surface(setting)

    history = played(small(4, 1), time_s)
    assert end(history) == "all settings that are not ruled out were tried"
    assert history.trials < history.size


came = st.one_of(st.floats(0.2, 8.0), st.floats(0.9, 1.1), st.just(CRASH))


@settings(max_examples=5)
@example([CRASH] * 4 + [1.0] * 3 + [CRASH] + [1.0] * 5, 0.0, ("omp_threads", 1), 0)
@given(
    st.lists(came, min_size=13, max_size=13),
    st.floats(0.0, 0.3),
    st.sampled_from([(), ("omp_threads", 1), ("omp_threads", 2), ("iterator_workers", 2)]),
    st.integers(0, 99),
)
def test_every_study_ends_and_hands_over_something_that_worked(
    times: list[float | Failed], spread: float, cap: tuple[str, int] | tuple[()], seed: int
) -> None:
    rng = Random(seed)
    everything = [BASELINE, *points(SPEC.knobs)]
    typical = dict(zip(everything, times, strict=True))

    def time_s(setting: Setting) -> float | Ending:
        value = typical.get(setting, 1.0)
        if rng.random() < spread / 3:
            return CRASH
        return value if isinstance(value, Failed) else value * math.exp(rng.gauss(0, spread))

    history = played(
        replace(CONFIRMED, trials=8), time_s, effects=capped(*cap) if cap else no_effects
    )
    best = SearchThenConfirm().best(history)
    found = build(history, "tune.db", StudyState.FINISHED, end(history), best)
    if found.best is not None:
        assert found.conclusion is not None and found.export is not None
        worked = {
            history.pooling.canonical(r.setting) for r in history.records if r.outcome.samples
        }
        stopped = found.baseline is not None and found.baseline.stopped is not None
        handed_over = history.pooling.canonical(found.export)
        assert handed_over in worked or (stopped and found.export == BASELINE)
    for length in range(len(history.records)):
        step = SearchThenConfirm().next(history.with_records(history.records[:length]))
        assert isinstance(step, Step)
        assert (step.purpose, step.setting) == steps(history)[length]


def no_effects(_: Setting) -> tuple[Effect, ...]:
    return ()
