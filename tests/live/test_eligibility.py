"""Which launches are windows, and when live measurement is over for a study."""

from __future__ import annotations

import pytest

from tests.study_surface import CRASH
from tests.study_windows import Records, setting
from tuner.live.eligibility import COLD, is_reachable, is_switched_off, may_be_window, why_cold
from tuner.model import (
    BASELINE,
    UNSET,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    ObjectiveSpec,
    Purpose,
    Setting,
    Value,
)

START, OTHER, THIRD = setting(1), setting(2), setting(3)
NO = Failed(FailureKind.SWITCH, "iterator_workers=2 in rank 1: ValueError: no")


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (ObjectiveSpec("wall"), "a whole launch"),
        (ObjectiveSpec("pattern", pattern="x([0-9])"), "pattern"),
        (ObjectiveSpec(key="samples_per_s"), "logreport:samples_per_s"),
    ],
)
def test_it_cannot_for_a_figure_that_does_not_follow_from_the_pace(
    objective: ObjectiveSpec, said: str
) -> None:
    assert said in why_cold(objective, {})


def test_nor_for_ranks_on_other_hosts() -> None:
    assert "other hosts" in why_cold(ObjectiveSpec(), {"SLURM_JOB_ID": "7"})


def windows() -> Records:
    """A job that has had windows."""
    return Records().cold(START, 3.0).starts(START, 3.0).window(OTHER, 2.0)


def test_only_the_search_is_measured_in_windows() -> None:
    records = windows().records
    assert may_be_window(records, Purpose.SEARCH, THIRD)
    assert not any(may_be_window(records, purpose, THIRD) for purpose in COLD)
    assert not may_be_window([], Purpose.SEARCH, THIRD), "no full run was seen"


@pytest.mark.parametrize(
    ("kind", "may_be"), [(FailureKind.CRASHED, False), (FailureKind.LIMIT, True)]
)
def test_a_setting_that_failed_in_a_window_is_launched_next(
    kind: FailureKind, may_be: bool
) -> None:
    records = windows().window(THIRD, Failed(kind, "it did")).records
    assert may_be_window(records, Purpose.SEARCH, THIRD) is may_be
    assert may_be_window(records, Purpose.SEARCH, OTHER)


def refusing(*settings: Setting, knob: str = "iterator_workers", works: bool = True) -> Records:
    """No job could be switched to these; then each was launched by itself."""
    told = Records()
    for each in settings:
        told.starts(START, 3.0).window(each, NO)
        why = Exclusion(ExclusionKind.AFTER_SWITCH, "it is launched by itself", (knob,))
        told.exclude((told.records[-1].number,), why).cold(each, 2.0 if works else CRASH)
    return told


def test_after_two_values_of_a_knob_that_no_job_took_live_measurement_is_over() -> None:
    two, three = setting(1, 2), setting(1, 3)
    told = refusing(two, three)
    assert is_switched_off(told.records)
    assert not may_be_window(told.records, Purpose.SEARCH, THIRD)
    assert not is_switched_off(refusing(two, setting(2, 2)).records), "one value"
    assert not is_switched_off(refusing(two, three, works=False).records), "the settings' fault"
    numbers = tuple(record.number for record in told.records)
    told.exclude(numbers, Exclusion(ExclusionKind.REMEASURED, "measured anew"))
    assert not is_switched_off(told.records), "what is measured anew is tried anew"


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
