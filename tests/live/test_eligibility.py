"""Which launches are windows, when live measurement is over, and what runs, by the records."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import CRASH, SPEC
from tests.study_windows import Records, setting
from tuner.live.eligibility import (
    is_reachable,
    live_vs_cold,
    may_be_window,
    why_cold,
    why_switched_off,
)
from tuner.live.running import SWITCH_S, RunningJob, live_costs, running_job
from tuner.model import (
    BASELINE,
    UNSET,
    Choice,
    Env,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Finished,
    Knob,
    LaunchRecord,
    Layout,
    ObjectiveSpec,
    Progress,
    Purpose,
    Setting,
    Value,
)
from tuner.search import Live

START, OTHER, THIRD = setting(1), setting(2), setting(3)


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (ObjectiveSpec("wall"), "a whole launch"),
        (ObjectiveSpec("pattern", pattern="x([0-9])"), "pattern"),
        (ObjectiveSpec(key="samples_per_s"), "logreport:samples_per_s"),
    ],
)
def test_not_if_no_figure_follows_from_the_pace(objective: ObjectiveSpec, said: str) -> None:
    assert said in why_cold(objective, Layout(2), {})
    assert "other hosts" in why_cold(ObjectiveSpec(), Layout(2), {"SLURM_JOB_ID": "7"})
    assert not why_cold(ObjectiveSpec(), Layout(2, ("h1", "h2"), (1, 1)), {"SLURM_JOB_ID": "7"})


def windows() -> Records:
    return Records().cold(START, 3.0).starts(START, 3.0).window(OTHER, 2.0)


def test_only_the_search_is_measured_in_windows() -> None:
    records = windows().records
    assert all(
        may_be_window(records, purpose, THIRD) is purpose.stage.may_be_window for purpose in Purpose
    )
    assert not may_be_window([], Purpose.SEARCH, THIRD), "no full run was seen"


def test_only_a_log_of_a_launch_of_its_own_can_be_resumed() -> None:
    ahead = (Progress(100, 90.0, 3.0),)
    for number, may_be in ((0, False), (2, True)):  # a launch, a window: its iterations are summed
        records = list(windows().records)
        outcome = replace(records[number].outcome, progress=ahead)
        records[number] = replace(records[number], outcome=outcome)
        assert may_be_window(records, Purpose.SEARCH, THIRD) is may_be


def of_length(iterations: int) -> tuple[LaunchRecord, ...]:
    """A warm-up whose log counts so many."""
    (made,) = Records().cold(START, 1.2).records
    ending = Finished(1.2, iterations)
    return (replace(made, outcome=replace(made.outcome, ending=ending)),)


def test_runs_too_short_for_windows_are_launched() -> None:
    assert not may_be_window(of_length(16), Purpose.SEARCH, THIRD)
    assert may_be_window(of_length(20), Purpose.SEARCH, THIRD)


@pytest.mark.parametrize(
    ("kind", "may_be"), [(FailureKind.CRASHED, False), (FailureKind.LIMIT, True)]
)
def test_a_setting_that_failed_in_a_window_is_launched_next(
    kind: FailureKind, may_be: bool
) -> None:
    records = windows().window(THIRD, Failed(kind, "it did")).records
    assert may_be_window(records, Purpose.SEARCH, THIRD) is may_be
    assert may_be_window(records, Purpose.SEARCH, OTHER)


# --- what a job can be switched to --------------------------------------------------------

LIVE = {"omp_threads", "omp_wait_policy"}


def of(threads: int, bind_to: str | None = None, policy: str | None = None) -> Setting:
    values: dict[str, Value] = {"omp_threads": threads}
    values |= {"bind_to": bind_to} if bind_to else {}
    return Setting.of(values | ({"omp_wait_policy": policy} if policy else {}))


@pytest.mark.parametrize(
    ("start", "wanted", "fits"),
    [
        (of(1, "core"), of(2, "core"), True),
        (of(1, "core"), of(1, "none"), False),
        (of(1, "core"), of(1), False),
        (of(1), of(1, "core"), False),
        (of(1), BASELINE, False),
        (BASELINE, BASELINE, True),
        (BASELINE, of(2), True),
        (BASELINE, of(2, "core"), False),
        (of(1, policy="active"), of(1, policy=UNSET), False),
        (of(1, policy=UNSET), of(2, policy=UNSET), True),
    ],
)
def test_what_cannot_be_changed_must_be_as_it_was_started(
    start: Setting, wanted: Setting, fits: bool
) -> None:
    assert is_reachable(start, wanted, LIVE) is fits


# --- windows that launches contradict ------------------------------------------------------

TWO, FIRST = setting(2, 1), setting(1, 1)


def disagreement(told: Records) -> Exclusion | None:
    return live_vs_cold(told.history.records, told.history.pooling.canonical)


def study(
    *, best: float = 1.0, baseline: float = 1.0, start: float | None = None, sd: float = 0.01
) -> Records:
    """Windows are off by these factors; six launches of the best and the defaults in turn."""
    rng = random.Random(3)

    def about(time_s: float) -> float:
        return time_s * math.exp(sd * rng.gauss(0, 1))

    told = Records().starts(FIRST, about(3.0 * (start or 1.0)))
    for _ in range(3):
        told.window(TWO, about(2.0 * best))
    told.starts(BASELINE, about(6.0 * baseline))
    for _ in range(6):
        told.cold(TWO, about(2.0)).cold(BASELINE, about(6.0))
    if start is not None:
        told.cold(FIRST, about(3.0)).cold(FIRST, about(3.0))
    return told


@pytest.mark.parametrize("factor", [0.75, 1.35])
def test_a_setting_that_is_off_excludes_all_windows(factor: float) -> None:
    told = study(best=factor)
    found = disagreement(told)
    assert found is not None and f"disagree: {TWO} took" in found.text
    assert ("longer" in found.text) == (factor > 1)
    told.exclude((1, 2, 3, 4, 5), found)
    assert disagreement(told) is None
    assert "live and cold disagreed" in why_switched_off(told.records)


@pytest.mark.parametrize("factor", [0.7, 1.2, 2.0])
def test_all_off_alike_is_a_bias_of_the_scale_and_one_beside_others_is_not(factor: float) -> None:
    assert disagreement(study(best=factor, baseline=factor)) is None
    found = disagreement(study(best=1.6, baseline=1.2, start=1.2))
    assert found is not None and f"disagree: {TWO} took" in found.text


@pytest.mark.parametrize(("factor", "disagrees"), [(0.85, False), (1.15, False), (1.4, True)])
def test_with_one_setting_to_compare_the_scale_may_be_off(factor: float, disagrees: bool) -> None:
    told = study(best=factor)
    told.records = [r for r in told.records if r.setting != BASELINE]
    assert (disagreement(told) is not None) == disagrees


@given(st.floats(0.955, 1.045))
def test_a_difference_below_five_per_cent_is_none(factor: float) -> None:
    assert disagreement(study(best=factor, sd=0.0)) is None


def test_what_differs_by_chance_is_rarely_taken_for_a_disagreement() -> None:
    found = 0
    for seed in range(200):
        rng = random.Random(seed)
        told = study()
        for place, each in enumerate(told.records):
            time_s = 6.0 if each.setting == BASELINE else 2.0
            noisy = Finished(time_s * math.exp(0.05 * rng.gauss(0, 1)), 100)
            told.records[place] = replace(each, outcome=replace(each.outcome, ending=noisy))
        found += disagreement(told) is not None
    assert found <= 12


# --- the running job, and what it costs ------------------------------------------------------

BOUND = replace(SPEC, knobs=(*SPEC.knobs, Knob("bind_to", Choice(("none", "core")), Env(("B",)))))


def running(told: Records) -> RunningJob | None:
    history = told.history
    return running_job(history.spec, history.records, history.pooling.canonical)


def live(told: Records) -> Live | None:
    history, names = told.history, [knob.name for knob in told.history.knobs]
    return live_costs(history.spec, history.records, history.pooling.canonical, names)


def test_a_launch_or_a_failure_ends_a_job() -> None:
    launched = Records().starts(setting(2), 2.0).cold(setting(3), 2.0)
    failed = Records().starts(setting(2), 2.0).window(setting(3), CRASH)
    for told in (launched, failed):
        assert running(told) is None and live(told) is not None


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


@pytest.mark.parametrize("kind", [ExclusionKind.LIVE_DISAGREES, ExclusionKind.OTHER_HOST])
def test_once_live_and_cold_disagree_no_job_runs(kind: ExclusionKind) -> None:
    told = (
        Records().starts(setting(2), 5.0).window(setting(1), 4.0).exclude((1,), Exclusion(kind, ""))
    )
    is_over = kind is ExclusionKind.LIVE_DISAGREES
    assert (running(told) is None) == (live(told) is None) == is_over
