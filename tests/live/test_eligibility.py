"""Which launches are windows, when live measurement is over, and what runs, by the records."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tests.study_surface import CRASH, SPEC
from tests.study_windows import Records, setting
from tuner.live.eligibility import is_reachable, live_vs_cold, may_be_window, why_cold
from tuner.live.running_job import SWITCH_S, live_costs, running_job
from tuner.model import (
    BASELINE,
    UNSET,
    Choice,
    Env,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Knob,
    LaunchRecord,
    Layout,
    ObjectiveSpec,
    Progress,
    Purpose,
    Setting,
)
from tuner.search.scoring import Live

START, OTHER, THIRD = setting(1), setting(2), setting(3)


@pytest.mark.parametrize(
    ("objective", "layout", "reason"),
    [
        (ObjectiveSpec("wall"), Layout(2, ("h1", "h2"), (1, 1)), "a whole launch"),
        (ObjectiveSpec("pattern", pattern="x([0-9])"), Layout(2), "pattern"),
        (ObjectiveSpec(key="samples_per_s"), Layout(2), "logreport:samples_per_s"),
        (ObjectiveSpec(), Layout(2), "other hosts"),
        (ObjectiveSpec(), Layout(2, ("h1", "h2"), (1, 1)), ""),
    ],
)
def test_why_settings_are_launched(objective: ObjectiveSpec, layout: Layout, reason: str) -> None:
    why = why_cold(objective, layout, {"SLURM_JOB_ID": "7"})
    assert reason in why and bool(why) == bool(reason)


def windows() -> Records:
    return Records().cold(START, 3.0).starts(START, 3.0).window(OTHER, 2.0)


def test_only_the_search_is_measured_in_windows() -> None:
    records = windows().records
    for purpose in Purpose:
        assert may_be_window(records, purpose, THIRD) is purpose.stage.may_be_window
    assert not may_be_window([], Purpose.SEARCH, THIRD), "no full run was seen"


def test_only_a_log_of_a_launch_of_its_own_can_be_resumed() -> None:
    ahead = (Progress(100, 90.0, 3.0),)
    for number, may_be in ((0, False), (2, True)):  # a launch, a window: its iterations are summed
        records = list(windows().records)
        outcome = replace(records[number].outcome, progress=ahead)
        records[number] = replace(records[number], outcome=outcome)
        assert may_be_window(records, Purpose.SEARCH, THIRD) is may_be


@pytest.mark.parametrize(
    ("kind", "may_be"), [(FailureKind.CRASHED, False), (FailureKind.LIMIT, True)]
)
def test_a_setting_that_failed_in_a_window_is_launched(kind: FailureKind, may_be: bool) -> None:
    records = windows().window(THIRD, Failed(kind, "it did")).records
    assert may_be_window(records, Purpose.SEARCH, THIRD) is may_be
    assert may_be_window(records, Purpose.SEARCH, OTHER)


@pytest.mark.parametrize(
    ("start", "target", "fits"),
    [
        (setting(1, bind_to="core"), setting(2, bind_to="core"), True),
        (setting(1, bind_to="core"), setting(1, bind_to="none"), False),
        (Setting.of({"omp_threads": 1}), BASELINE, False),
        (BASELINE, BASELINE, True),
        (BASELINE, Setting.of({"omp_threads": 2}), True),
        (setting(1, omp_wait_policy="active"), setting(1, omp_wait_policy=UNSET), False),
        (setting(1, omp_wait_policy=UNSET), setting(2, omp_wait_policy=UNSET), True),
    ],
)
def test_what_cannot_change_must_fit_the_start(start: Setting, target: Setting, fits: bool) -> None:
    assert is_reachable(start, target, {"omp_threads", "omp_wait_policy"}) is fits


def disagreement(study: Records) -> Exclusion | None:
    return live_vs_cold(study.history.records)


@pytest.mark.parametrize(
    ("factor", "is_off"), [(0.7, True), (0.85, False), (1.0, False), (1.15, False), (1.4, True)]
)
def test_windows_of_a_setting_that_is_off_disagree(factor: float, is_off: bool) -> None:
    """Three windows of the best, off by this factor, and six launches of it and the defaults."""
    rng = random.Random(3)

    def about(time_s: float) -> float:
        return time_s * math.exp(rng.gauss(0, 0.01))

    study = Records().starts(setting(1, 1), about(3.0))
    for _ in range(3):
        study.window(OTHER, about(2.0 * factor))
    for _ in range(6):
        study.cold(OTHER, about(2.0)).cold(BASELINE, about(6.0))
    why = disagreement(study)
    assert (why is not None) is is_off
    if why is not None:
        assert f"disagree: {OTHER} took" in why.text
        assert ("longer" in why.text) == (factor > 1)
        assert may_be_window(study.records, Purpose.SEARCH, OTHER)
        study.exclude((1, 2, 3, 4), why)
        assert disagreement(study) is None
        assert not may_be_window(study.records, Purpose.SEARCH, OTHER), "it was switched off"


@pytest.mark.parametrize(
    ("factor", "slower", "is_off"),
    [
        (1.0, 1.0, False),
        (0.6, 1.0, True),
        (1.6, 1.0, True),
        (1.0, 0.5, False),
        (1.0, 2.0, False),
        # It was so before the windows already, after the launch of the defaults.
        (2.0, 2.0, False),
    ],
)
def test_a_machine_that_has_changed_speaks_against_no_window(
    factor: float, slower: float, is_off: bool
) -> None:
    study = Records().cold(BASELINE, 6.0).starts(OTHER, 2.0 * factor)
    for _ in range(3):
        study.cold(OTHER, 2.0 * slower, purpose=Purpose.CONFIRM)
        study.cold(BASELINE, 6.0 * slower, purpose=Purpose.CONFIRM)
    assert (disagreement(study) is not None) is is_off


@pytest.mark.parametrize(("factor", "is_off"), [(0.25, False), (1.4, False), (4.0, True)])
def test_a_log_of_other_iterations_shows_in_the_first_window(factor: float, is_off: bool) -> None:
    """Of four batches an optimizer step is one; a first launch may be slow by itself."""
    study = Records().cold(OTHER, 2.0, purpose=Purpose.WARM_UP).starts(OTHER, 2.0 * factor)
    why = disagreement(study)
    assert (why is not None) is is_off
    assert why is None or "session.step() says what an iteration is" in why.text


BOUND = replace(SPEC, knobs=(*SPEC.knobs, Knob("bind_to", Choice(("none", "core")), Env(("B",)))))


def running(study: Records) -> LaunchRecord | None:
    return running_job(study.history.spec, study.history.records)


def live(study: Records) -> Live | None:
    history, names = study.history, [knob.name for knob in study.history.knobs]
    return live_costs(history.spec, history.records, names)


def test_a_launch_or_a_failure_ends_a_job() -> None:
    launched = Records().starts(setting(2), 2.0).cold(setting(3), 2.0)
    failed = Records().starts(setting(2), 2.0).window(setting(3), CRASH)
    for study in (launched, failed):
        assert running(study) is None and live(study) is not None


def test_the_costs_are_those_seen() -> None:
    study = Records(BOUND).starts(setting(2, bind_to="core"), 5.0)
    first = live(study)
    assert first is not None and (first.startup_s, first.switch_s) == (2.0, SWITCH_S)
    assert first.share == pytest.approx(0.1)
    assert first.job == (2, 1, "core")
    study.window(setting(1, bind_to="core"), 4.0)
    later = live(study)
    assert later is not None and later.switch_s == 0.3
    assert later.share == pytest.approx((0.1 + 0.2) / 2)


@pytest.mark.parametrize("kind", [ExclusionKind.LIVE_DISAGREES, ExclusionKind.OTHER_HOST])
def test_once_live_and_cold_disagree_no_job_runs(kind: ExclusionKind) -> None:
    study = Records().starts(setting(2), 5.0).window(setting(1), 4.0)
    study.exclude((1,), Exclusion(kind, ""))
    is_over = kind is ExclusionKind.LIVE_DISAGREES
    assert (running(study) is None) == (live(study) is None) == is_over
