"""The running job and the costs of live measurement, from the records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_surface import CRASH, SPEC
from tests.study_windows import Records, setting
from tuner.live.running import SWITCH_S, RunningJob, live_costs, running_job
from tuner.model import BASELINE, Choice, Env, Exclusion, ExclusionKind, Knob
from tuner.search import Live

BOUND = replace(SPEC, knobs=(*SPEC.knobs, Knob("bind_to", Choice(("none", "core")), Env(("B",)))))


def running(told: Records) -> RunningJob | None:
    history = told.history
    return running_job(history.spec, history.records, history.pooling.canonical)


def live(told: Records) -> Live | None:
    history = told.history
    return live_costs(
        history.spec,
        history.records,
        history.pooling.canonical,
        [knob.name for knob in history.knobs],
    )


@pytest.mark.parametrize("way", ["cold", "fails"])
def test_a_job_ends(way: str) -> None:
    told = Records().starts(setting(2), 2.0)
    if way == "cold":
        told.cold(setting(3), 2.0)
    else:
        told.window(setting(3), CRASH)
    assert running(told) is None
    assert live(told) is not None


def test_a_job_serves_what_has_its_cold_part() -> None:
    told = Records(BOUND).starts(setting(2, bind_to="core"), 2.0)
    job = running(told)
    assert job is not None
    assert job.serves(setting(1, bind_to="core"))
    assert not job.serves(setting(2, bind_to="none"))
    assert not job.serves(setting(2))
    assert not job.serves(BASELINE)


def test_the_costs_are_those_seen() -> None:
    told = Records(BOUND).starts(setting(2, bind_to="core"), 5.0)
    first = live(told)
    assert first is not None
    assert (first.startup_s, first.switch_s) == (2.0, SWITCH_S)
    assert first.share == pytest.approx(0.1)
    assert first.job == (2, 1, "core")
    told.window(setting(1, bind_to="core"), 4.0)
    later = live(told)
    assert later is not None
    assert later.switch_s == 0.3
    assert later.share == pytest.approx((0.1 + 0.2) / 2)


@pytest.mark.parametrize("kind", [ExclusionKind.LIVE_DISAGREES, ExclusionKind.INTERFERENCE])
def test_once_live_and_cold_disagree_no_job_runs(kind: ExclusionKind) -> None:
    told = (
        Records().starts(setting(2), 5.0).window(setting(1), 4.0).exclude((1,), Exclusion(kind, ""))
    )
    is_over = kind is ExclusionKind.LIVE_DISAGREES
    assert (running(told) is None) == (live(told) is None) == is_over
