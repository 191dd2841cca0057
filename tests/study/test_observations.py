"""A study in the words of the search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import BEST, SPEC, STARTUP_S, capped, overridden, ran, record, surface
from tuner.knobs.space import guesses, points
from tuner.model import (
    SHORTAGES,
    Choice,
    Failed,
    FailureKind,
    Flag,
    Knob,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
)
from tuner.search import Key, KnobAxis
from tuner.study.history import History
from tuner.study.observations import as_setting, observations, search_space

NAMES = Knob("binding", Choice(("none", "core")), Flag("-b"), default="core")
STOPPED = Stopped(1.0, 3.0, 2.5, 3.5, 0.12, "drift")


def history_of(*settings: Setting, spec: StudySpec = SPEC, knob: str = "", cap: int = 0) -> History:
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
        KnobAxis("omp_threads", (1, 2, 3, 4), "threads", 4),
        KnobAxis("iterator_workers", (1, 2, 3), "workers", 3),
        KnobAxis("binding", ("none", "core"), None, "core"),
    )
    assert (space.ranks_per_host, space.cores) == (2, 4)
    assert space.guesses == ((2, 2, "core"), (1, 1, "core"))


def test_a_cap_leaves_the_values_that_differ() -> None:
    space = search_space(history_of(LARGEST, knob="omp_threads", cap=1))
    assert space.knobs[0].values == (1,)
    assert space.guesses == (key(1, 2), key(1, 1)), "in the form that they come to"


def test_each_setting_has_a_key_and_each_key_its_setting() -> None:
    history = history_of(*points(SPEC.knobs))
    seen = observations(history, history.records)
    assert len({each.setting for each in seen}) == history.size == 12
    for made, each in zip(history.records, seen, strict=True):
        assert each.setting is not None
        assert as_setting(history, each.setting) == made.setting
    assert seen[-1].setting == key(4, 3)
    assert set(search_space(history).guesses) == {key(2, 2), key(1, 1)}
    assert [as_setting(history, each) for each in search_space(history).guesses] == list(
        guesses(SPEC)
    )


# --- the launches ------------------------------------------------------------------------


def test_what_was_stopped_has_its_projection() -> None:
    history = History.judged(
        SPEC, (record(1, BEST, Purpose.GUESS, replace(ran(2.0), ending=STOPPED)),)
    )
    (seen,) = observations(history, history.records)
    assert (seen.ending, seen.elapsed_s) == ("killed", None)
    assert (seen.projection_s, seen.projection_log_sd) == (3.0, 0.12)
    assert seen.startup_s == STARTUP_S, "it teaches how long a start takes"


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_crash_may_be_chance_and_a_shortage_is_a_bound(kind: FailureKind) -> None:
    history = History.judged(SPEC, (record(1, BEST, Purpose.GUESS, ran(Failed(kind, ""))),))
    chance = {FailureKind.CRASHED, FailureKind.LAUNCHER, FailureKind.NO_LOG, FailureKind.BAD_LOG}
    (seen,) = observations(history, history.records)
    assert (seen.by_chance, seen.is_bound) == (kind in chance, kind in SHORTAGES)


def test_settings_that_come_to_the_same_have_one_key() -> None:
    history = history_of(
        LARGEST, Setting.of({"omp_threads": 3, "iterator_workers": 3}), knob="omp_threads", cap=2
    )
    assert {seen.setting for seen in observations(history, history.records)} == {key(2, 3)}
