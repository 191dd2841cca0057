"""A study in the words of the search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import BEST, SPEC, STARTUP_S, ran, record, surface
from tuner.knobs.space import guesses, points
from tuner.model import SHORTAGES, Failed, FailureKind, Purpose, Stopped
from tuner.study.history import History
from tuner.study.observations import as_setting, observations, search_space

STOPPED = Stopped(1.0, 3.0, 2.5, 3.5, 0.12, "drift")
CHANCE = {FailureKind.CRASHED, FailureKind.LAUNCHER, FailureKind.NO_LOG, FailureKind.BAD_LOG}


def test_each_setting_has_a_key_and_each_key_its_setting() -> None:
    records = [
        record(n, setting, Purpose.SEARCH, ran(surface(setting)))
        for n, setting in enumerate(points(SPEC.knobs), start=1)
    ]
    history = History.judged(SPEC, records)
    keys = [launch.setting for launch in observations(history, history.records)]
    assert len(set(keys)) == history.size == 12
    settings = [None if key is None else as_setting(history, key) for key in keys]
    assert settings == [made.setting for made in records]
    guessed = search_space(history).guesses
    assert [as_setting(history, key) for key in guessed] == list(guesses(SPEC))


def test_what_was_stopped_has_its_projection() -> None:
    launch = record(1, BEST, Purpose.GUESS, replace(ran(2.0), ending=STOPPED))
    history = History.judged(SPEC, [launch])
    (observed,) = observations(history, history.records)
    assert (observed.ending, observed.elapsed_s) == ("killed", None)
    assert (observed.projection_s, observed.projection_log_sd) == (3.0, 0.12)
    assert observed.startup_s == STARTUP_S, "it teaches how long a start takes"


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_crash_may_be_chance_and_a_shortage_is_a_bound(kind: FailureKind) -> None:
    history = History.judged(SPEC, [record(1, BEST, Purpose.GUESS, ran(Failed(kind, "")))])
    (observed,) = observations(history, history.records)
    assert (observed.by_chance, observed.is_bound) == (kind in CHANCE, kind in SHORTAGES)
