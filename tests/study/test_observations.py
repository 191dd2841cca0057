"""A study in the words of the search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import (
    BEST,
    CRASH,
    SPEC,
    STARTUP_S,
    capped,
    log,
    overridden,
    ran,
    record,
    surface,
)
from tuner.knobs.space import guesses, points
from tuner.model import (
    BASELINE,
    SHORTAGES,
    Choice,
    Failed,
    FailureKind,
    Flag,
    IntRange,
    Knob,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
)
from tuner.search import Key, KnobAxis
from tuner.search.throughput import Pace
from tuner.study.history import History
from tuner.study.observations import as_setting, observations, search_space

NAMES = Knob("binding", Choice(("none", "core")), Flag("-b"), default="core")
STOPPED = Stopped(1.0, 3.0, 2.5, 3.5, 0.12, "drift")


def plan_of(*settings: Setting, spec: StudySpec = SPEC, knob: str = "", cap: int = 0) -> History:
    effects = capped(knob, cap) if cap else overridden(knob, 2)
    made = (
        record(n, setting, Purpose.SEARCH, ran(surface(setting), effects=tuple(effects(setting))))
        for n, setting in enumerate(settings, start=1)
    )
    return History.judged(spec, tuple(made))


def key(threads: int, workers: int) -> Key:
    return threads, workers


LARGEST = Setting.of({"omp_threads": 4, "iterator_workers": 3})


# --- the space ---------------------------------------------------------------------------


def test_the_space_has_the_knobs_with_their_roles_and_the_machine() -> None:
    space = search_space(History.judged(replace(SPEC, knobs=(*SPEC.knobs, NAMES)), ()))
    assert space.knobs == (
        KnobAxis("omp_threads", (1, 2, 3, 4), "threads"),
        KnobAxis("iterator_workers", (1, 2, 3), "workers"),
        KnobAxis("binding", ("none", "core"), None, "core"),
    )
    assert (space.ranks_per_host, space.cores) == (2, 4)
    assert space.guesses == ((2, 2, "core"), (1, 1, "core"))


def test_the_defaults_are_no_point_unless_it_is_known_which() -> None:
    assert search_space(History.judged(SPEC, ())).baseline is None
    known = search_space(History.judged(SPEC, (), baseline=LARGEST))
    assert known.baseline == key(4, 3)
    assert [knob.default for knob in known.knobs] == [4, 3]


def test_a_cap_leaves_the_values_that_differ() -> None:
    space = search_space(plan_of(LARGEST, knob="omp_threads", cap=1))
    assert space.knobs[0].values == (1,)
    assert space.guesses == (key(1, 2), key(1, 1)), "in the form that they come to"


def test_an_overridden_knob_is_gone() -> None:
    plan = plan_of(LARGEST, knob="iterator_workers")
    space = search_space(plan)
    assert [knob.name for knob in space.knobs] == ["omp_threads"]
    assert space.guesses == ((2,), (1,))
    assert as_setting(plan, (3,)) == Setting.of({"omp_threads": 3})


def test_a_fixed_knob_has_one_value() -> None:
    pinned = replace(SPEC.knobs[1], domain=Choice((3,)))
    fixed = Setting.of({"iterator_workers": 3})
    space = search_space(
        History.judged(replace(SPEC, knobs=(SPEC.knobs[0], pinned), fixed=fixed), ())
    )
    assert space.knobs[1].values == (3,)
    assert space.guesses == (key(2, 3), key(1, 3))


def test_how_many_cores_may_be_asked_for_is_handed_on() -> None:
    assert search_space(History.judged(SPEC, ())).most_demand is None
    assert search_space(History.judged(replace(SPEC, oversubscription=2.0), ())).most_demand == 2.0


def test_each_setting_has_a_key_and_each_key_its_setting() -> None:
    plan = plan_of(*points(SPEC.knobs))
    seen = observations(plan, plan.records)
    assert len({each.setting for each in seen}) == plan.size == 12
    for made, each in zip(plan.records, seen, strict=True):
        assert each.setting is not None
        assert as_setting(plan, each.setting) == made.setting
    assert seen[-1].setting == key(4, 3)
    assert set(search_space(plan).guesses) == {key(2, 2), key(1, 1)}
    assert [as_setting(plan, each) for each in search_space(plan).guesses] == list(guesses(SPEC))


# --- the launches ------------------------------------------------------------------------


def test_what_finished_has_its_time_and_its_pace() -> None:
    plan = plan_of(BEST)
    (seen,) = observations(plan, plan.records)
    assert (seen.ending, seen.elapsed_s, seen.projection_s) == ("finished", 1.0, None)
    assert (seen.wall_s, seen.startup_s) == (1.0 + STARTUP_S, STARTUP_S)
    assert seen.pace == Pace.of(log(1.0))


def test_what_was_stopped_has_its_projection() -> None:
    plan = History.judged(
        SPEC, (record(1, BEST, Purpose.GUESS, replace(ran(2.0), ending=STOPPED)),)
    )
    (seen,) = observations(plan, plan.records)
    assert (seen.ending, seen.elapsed_s) == ("killed", None)
    assert (seen.projection_s, seen.projection_log_sd) == (3.0, 0.12)
    assert seen.startup_s == STARTUP_S, "it teaches how long a start takes"


def test_what_failed_has_no_time() -> None:
    plan = History.judged(SPEC, (record(1, BEST, Purpose.GUESS, ran(CRASH)),))
    (seen,) = observations(plan, plan.records)
    assert (seen.setting, seen.ending) == (key(2, 1), "failed")
    assert (seen.elapsed_s, seen.projection_s, seen.startup_s, seen.pace) == (None,) * 4


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_crash_may_be_chance_and_a_shortage_is_a_bound(kind: FailureKind) -> None:
    plan = History.judged(SPEC, (record(1, BEST, Purpose.GUESS, ran(Failed(kind, ""))),))
    chance = {
        FailureKind.CRASHED,
        FailureKind.LAUNCHER,
        FailureKind.NO_LOG,
        FailureKind.BAD_LOG,
    }
    (seen,) = observations(plan, plan.records)
    assert (seen.by_chance, seen.is_bound) == (kind in chance, kind in SHORTAGES)


@pytest.mark.parametrize(
    ("purpose", "name"),
    [
        (Purpose.BASELINE, "baseline"),
        (Purpose.GUESS, "guess"),
        (Purpose.SEARCH, "explore"),
        (Purpose.REPEAT, "repeat"),
        (Purpose.CONFIRM, "confirm"),
        (Purpose.RECORD, "explore"),
    ],
)
def test_every_purpose_has_a_name_there(purpose: Purpose, name: str) -> None:
    plan = History.judged(SPEC, (record(1, BEST, purpose, ran(1.0)),))
    assert [seen.purpose for seen in observations(plan, plan.records)] == [name]


def test_what_lies_outside_of_the_space_has_no_key() -> None:
    wide = Setting.of({"omp_threads": 8, "iterator_workers": 1})
    few = Setting.of({"omp_threads": 1})
    plan = plan_of(BASELINE, wide, few)
    assert [seen.setting for seen in observations(plan, plan.records)] == [None] * 3


def test_settings_that_come_to_the_same_have_one_key() -> None:
    plan = plan_of(
        LARGEST, Setting.of({"omp_threads": 3, "iterator_workers": 3}), knob="omp_threads", cap=2
    )
    assert {seen.setting for seen in observations(plan, plan.records)} == {key(2, 3)}


def test_a_log_without_moments_tells_of_no_start() -> None:
    """Logs of an older version."""
    old = tuple(replace(entry, seen_s=None) for entry in log(1.0))
    plan = History.judged(SPEC, (record(1, BEST, Purpose.GUESS, replace(ran(1.0), progress=old)),))
    (seen,) = observations(plan, plan.records)
    assert seen.startup_s is None
    assert seen.pace is not None and seen.pace.interval == 25


def test_a_wide_range_is_a_space_too() -> None:
    wide = replace(SPEC.knobs[0], domain=IntRange(1, 64))
    space = search_space(History.judged(replace(SPEC, knobs=(wide,)), ()))
    assert space.size == 64
