"""What the records tell of the job that runs, and of the costs in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import CRASH, SPEC
from tests.study_windows import Told, setting
from tuner.model import BASELINE, Choice, Env, Exclusion, ExclusionKind, Knob, Setting
from tuner.study.running import SHARE, SWITCH_S, live, running

BOUND = replace(SPEC, knobs=(*SPEC.knobs, Knob("bind_to", Choice(("none", "core")), Env(("B",)))))


def test_a_study_without_windows_is_none() -> None:
    told = Told().cold(setting(), 3.0)
    assert (running(told.plan), live(told.plan)) == (None, None)
    assert running(Told().plan) is None


def test_the_last_window_tells_of_the_job() -> None:
    told = Told().cold(setting(), 3.0).starts(setting(2), 2.0).window(setting(3), 1.0)
    job = running(told.plan)
    assert job is not None
    assert (job.number, job.start, len(job.windows)) == (2, setting(2), 2)
    assert job.live == {"omp_threads", "iterator_workers"}


@pytest.mark.parametrize("way", ["cold", "fails", "drifts"])
def test_a_job_ends(way: str) -> None:
    told = Told().starts(setting(2), 2.0)
    if way == "cold":
        told.cold(setting(3), 2.0)
    elif way == "fails":
        told.window(setting(3), CRASH)
    else:
        told.window(setting(3), 2.0).exclude((2,), Exclusion(ExclusionKind.JOB_DRIFTED, "much"))
    assert running(told.plan) is None
    assert live(told.plan) is not None


def test_a_study_that_goes_on_without_running_jobs_has_none() -> None:
    told = Told().cold(setting(), 3.0).starts(setting(2), 2.0).window(setting(3), 1.0)
    told.spec = replace(told.spec, live="off")
    assert (running(told.plan), live(told.plan)) == (None, None)


def test_a_window_set_aside_for_what_others_did_leaves_the_job() -> None:
    told = (
        Told()
        .starts(setting(2), 2.0)
        .exclude((1,), Exclusion(ExclusionKind.INTERFERENCE, "other processes used 2 cores"))
    )
    assert running(told.plan) is not None


def test_a_job_serves_what_has_its_cold_part() -> None:
    told = Told(BOUND).starts(setting(2, bind_to="core"), 2.0)
    job = running(told.plan)
    assert job is not None
    assert job.serves(setting(1, bind_to="core"))
    assert not job.serves(setting(2, bind_to="none"))
    assert not job.serves(setting(2))
    assert not job.serves(BASELINE)


def test_a_job_of_the_defaults_serves_what_it_can_change() -> None:
    job = running(Told(BOUND).starts(BASELINE, 5.0).plan)
    assert job is not None
    assert job.serves(BASELINE)
    assert job.serves(setting(1))
    assert not job.serves(setting(1, bind_to="none"))


def test_the_costs_are_those_seen() -> None:
    told = Told(BOUND).starts(setting(2, bind_to="core"), 5.0)
    first = live(told.plan)
    assert first is not None
    assert (first.startup_s, first.switch_s) == (2.0, SWITCH_S)
    assert first.share == pytest.approx(0.1)
    assert first.job == (2, 1, "core")
    told.window(setting(1, bind_to="core"), 4.0)
    later = live(told.plan)
    assert later is not None
    assert later.switch_s == 0.3
    assert later.share == pytest.approx((0.1 + 0.2) / 2)


def test_before_a_window_came_to_its_end_its_share_is_presumed() -> None:
    known = live(Told().starts(setting(2), CRASH).plan)
    assert known is not None
    assert (known.share, known.job) == (SHARE, None)


def test_what_is_frozen_is_cold() -> None:
    told = Told().starts(setting(2), 5.0).window(setting(1), 4.0)
    told.exclude((1,), Exclusion(ExclusionKind.LIVE_DISAGREES, "much", ("omp_threads",)))
    known, job = live(told.plan), running(told.plan)
    assert known is not None
    assert job is not None
    assert known.knobs == job.live == {"iterator_workers"}
    assert job.serves(setting(2, 3))
    assert not job.serves(setting(1, 3))


def test_a_resumed_study_knows_the_same() -> None:
    """Whatever the setting is called in the records, the canonical form decides."""
    told = Told().starts(Setting.of({"omp_threads": 2, "iterator_workers": 1}), 2.0)
    again = Told(records=list(told.records))
    assert live(again.plan) == live(told.plan)
