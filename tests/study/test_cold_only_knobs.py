"""Knobs that no running job can change, as the records tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import CRASH, SPEC
from tests.study_windows import Told, setting
from tuner.model import Choice, Env, Exclusion, ExclusionKind, Failed, FailureKind, Knob, Setting
from tuner.study.cold_only_knobs import frozen, is_all_frozen, notes
from tuner.study.interference import REMEASURED
from tuner.study.running import live, running

CHUNK = replace(SPEC, knobs=(*SPEC.knobs, Knob("chunk", Choice((1, 2, 3)), Env(("CHUNK",)))))
LIVE = ("chunk", "iterator_workers", "omp_threads")


def no(chosen: Setting, knob: str = "chunk") -> Failed:
    """What a switch to the setting came to."""
    what = f"{knob}={chosen.as_dict()[knob]}"
    return Failed(FailureKind.SWITCH, f"{what} in rank 1: ValueError: no")


def study(*refusals: Setting, works: bool = True) -> Told:
    """Each could not be switched to; then it was launched by itself."""
    told = Told(CHUNK, LIVE).starts(setting(chunk=1), 3.0).window(setting(2, chunk=1), 2.0)
    for each in refusals:
        told.starts(setting(chunk=1), 3.0).window(each, no(each))
        told.cold(each, 2.0 if works else CRASH)
    return told


TWO, THREE = setting(chunk=2), setting(chunk=3)


def test_two_values_that_no_job_took_are_enough() -> None:
    told = study(TWO, THREE)
    assert frozen(told.records) == {"chunk"}
    (note,) = notes(told.plan)
    assert note == (
        "chunk is changed by launches alone in this study: running jobs could not be switched to"
        " chunk=2 in rank 1: ValueError: no, nor to chunk=3"
    )
    known, job = live(told.plan), running(told.starts(setting(chunk=2), 3.0).plan)
    assert known is not None and job is not None
    assert known.knobs == job.live == {"iterator_workers", "omp_threads"}


def test_one_value_counts_once() -> None:
    told = study(TWO, setting(2, chunk=2), setting(3, chunk=2))
    assert (frozen(told.records), notes(told.plan)) == (frozenset(), [])


def test_two_knobs_with_a_value_each_are_none() -> None:
    told = study(TWO)
    other = setting(2, chunk=1)
    told.starts(setting(chunk=1), 3.0).window(other, no(other, "omp_threads")).cold(other, 2.0)
    assert frozen(told.records) == frozenset()


def test_a_value_that_no_launch_can_have_is_the_settings_fault() -> None:
    assert frozen(study(TWO, THREE, works=False).records) == frozenset()


def test_nobody_is_blamed_before_the_setting_was_launched_by_itself() -> None:
    told = study(TWO).starts(setting(chunk=1), 3.0).window(THREE, no(THREE))
    assert frozen(told.records) == frozenset()
    assert frozen(told.starts(THREE, 3.0).records) == {"chunk"}, "as the first window of a job too"


@pytest.mark.parametrize("kind", [FailureKind.CRASHED, FailureKind.OUT_OF_MEMORY])
def test_other_failures_say_nothing_of_the_knob(kind: FailureKind) -> None:
    told = study()
    for each in (TWO, THREE):
        told.starts(setting(chunk=1), 3.0).window(each, Failed(kind, no(each).reason))
        told.cold(each, 2.0)
    assert frozen(told.records) == frozenset()


def test_what_is_measured_anew_is_tried_anew() -> None:
    told = study(TWO, THREE)
    every = tuple(record.number for record in told.records)
    assert frozen(told.exclude(every, REMEASURED).records) == frozenset()


def test_both_reasons_meet() -> None:
    told = study(TWO, THREE)
    told.exclude((2,), Exclusion(ExclusionKind.LIVE_DISAGREES, "much", ("omp_threads",)))
    assert frozen(told.records) == {"chunk", "omp_threads"}
    assert not is_all_frozen(told.plan)
    told.exclude((1,), Exclusion(ExclusionKind.LIVE_DISAGREES, "much", ("iterator_workers",)))
    assert is_all_frozen(told.plan)
