"""Which launches say nothing of their setting, since the machine was not as usual."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.study_samples import MACHINE, SPEC, record, setting
from tuner.model import (
    BASELINE,
    Ending,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Load,
    Outcome,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
)
from tuner.study.history import History
from tuner.study.interference import REMEASURED, InterferenceFilter, interference_with, notes

#: Two ranks with a worker each ask for all of the four cores.
FULL = setting(omp_threads=1, iterator_workers=1)
ALONE = Load(0.02)
BUSY = Load(1.5, "pid 6263 (python)")
DISTURBED = replace(BUSY, unusual=True)

OTHERS = Exclusion(ExclusionKind.INTERFERENCE, "others")


def launched(
    number: int,
    load: Load,
    chosen: Setting = FULL,
    aside: Exclusion | None = None,
    purpose: Purpose = Purpose.SEARCH,
) -> LaunchRecord:
    """A launch of four seconds."""
    made = record(number, chosen, 3.5, purpose=purpose)
    return replace(made, outcome=replace(made.outcome, load=load, exclusion=aside))


def on(cpus: int) -> StudySpec:
    return replace(SPEC, machine=replace(MACHINE, affinity_cpus=cpus))


def after(number: int, load: Load, aside: Exclusion | None = None) -> list[LaunchRecord]:
    return [launched(each, load, aside=aside) for each in range(1, number + 1)]


SLOW, HOT = Load(0.0, throttled_s=0.5), Load(0.0, hot=True)
WIDE = setting(omp_threads=4, iterator_workers=1)
BESIDE = "other processes used 1.5 of 4 cores, above all pid 6263 (python)"
HELD_BACK, SWAPPED = "the cgroup's CPU quota held it back for 0.500 s", "100 MiB were swapped"
HEAT = "CPUs were slowed down for their temperature"
USED = "other processes used"


@pytest.mark.parametrize(
    ("load", "past", "chosen", "cpus", "why"),
    [
        (BUSY, [], FULL, 4, BESIDE),
        (ALONE, [], FULL, 4, ""),
        (Load(6.0), [], FULL, 16, ""),  # cores that the launch leaves free are anybody's
        (Load(13.0), [], FULL, 16, USED),
        (Load(6.0), [], BASELINE, 16, USED),  # it may want all of them
        (Load(3.0), [], BASELINE, 64, ""),  # a large machine is counted less exactly
        (Load(4.0), [], BASELINE, 64, USED),
        (BUSY, after(5, Load(1.4)), FULL, 4, ""),  # it is always loaded
        (Load(3.5), after(5, Load(1.4)), FULL, 4, USED),
        (BUSY, [*after(19, ALONE), *after(2, BUSY)], FULL, 4, BESIDE),
        (BUSY, [*after(19, ALONE), *after(3, DISTURBED)], FULL, 4, BESIDE),  # however long it lasts
        (SLOW, [], FULL, 4, HELD_BACK),
        (Load(0.0, throttled_s=0.1), [], FULL, 4, ""),
        (SLOW, [], WIDE, 4, ""),  # it wants more than there is by itself
        (SLOW, [], BASELINE, 4, ""),
        (SLOW, after(3, SLOW), FULL, 4, ""),
        (HOT, [], FULL, 4, HEAT),
        (HOT, after(2, HOT), FULL, 4, HEAT),
        (Load(0.0, swapped_bytes=100 << 20), [], FULL, 4, SWAPPED),
        (Load(0.0, swapped_bytes=60 << 20), [], FULL, 4, ""),
    ],
)
def test_a_launch_is_compared_with_what_is_usual(
    load: Load, past: list[LaunchRecord], chosen: Setting, cpus: int, why: str
) -> None:
    found = interference_with(launched(99, load, chosen).outcome, chosen, on(cpus), past, ALONE)
    assert found.startswith(why) and bool(found) == bool(why)


@pytest.mark.parametrize("sets_aside", [True, False], ids=["limit", "crash"])
def test_a_failure_of_the_programs_own_stays_one(sets_aside: bool) -> None:
    kind = FailureKind.LIMIT if sets_aside else FailureKind.CRASHED
    outcome = replace(launched(1, BUSY).outcome, ending=Failed(kind, "it failed"))
    assert bool(interference_with(outcome, FULL, SPEC, (), ALONE)) is sets_aside


def test_a_bound_that_was_reached_beside_others_is_no_bound() -> None:
    ending: Ending = Stopped(2.0, 9.0, 8.0, 10.0, 0.1, "race")
    outcome = replace(launched(1, BUSY).outcome, ending=ending)
    assert interference_with(outcome, FULL, SPEC, (), ALONE) != ""


# --- again and again ---------------------------------------------------------------------


def test_two_disturbed_launches_are_made_again_and_further_ones_count() -> None:
    interference_filter, notes = InterferenceFilter(ALONE), []
    past = [launched(number, ALONE, BASELINE) for number in range(1, 6)]
    for number in (6, 7, 8, 9):
        made, note = interference_filter.judged(launched(number, BUSY), SPEC, past)
        past.append(made)
        notes.append(note)
    assert [bool(each.outcome.exclusion) for each in past[5:]] == [True, True, False, False]
    assert all(each.outcome.load == DISTURBED for each in past[5:])
    assert notes == [
        "",
        "",
        "launch 8 counts all the same, as long as the machine stays like that: other processes used"
        " 1.5 of 4 cores, above all pid 6263 (python)",
        "",
    ]
    assert interference_filter.outdated(past, SPEC) == []
    narrow = launched(10, Load(3.0), setting(omp_threads=1))
    assert interference_filter.outdated([*past, narrow], SPEC) == [], "it left CPUs free"
    assert interference_filter.outdated([*past, launched(10, ALONE)], SPEC) == past[7:]


def test_warm_ups_and_whoever_wants_it_so_are_left_alone() -> None:
    busy = launched(1, BUSY)
    assert (
        InterferenceFilter(ALONE).judged(replace(busy, purpose=Purpose.WARM_UP), SPEC, ())[1] == ""
    )
    assert InterferenceFilter(ALONE, counts_all=True).judged(busy, SPEC, ()) == (busy, "")
    assert InterferenceFilter(ALONE).judged(busy, SPEC, ())[0].outcome.exclusion


# --- how often -----------------------------------------------------------------------------


def excluded(made: LaunchRecord) -> LaunchRecord:
    return replace(made, outcome=replace(made.outcome, exclusion=OTHERS))


def studied(loads: Sequence[float], cpus: int = 4) -> list[Outcome]:
    """Launches of ever another setting under these loads, made again where they are disturbed."""
    spec = replace(SPEC, machine=replace(MACHINE, affinity_cpus=cpus, logical_cpus=cpus))
    interference_filter = InterferenceFilter(Load(loads[0]))
    past: list[LaunchRecord] = []
    for number, others in enumerate(loads, start=1):
        made, _ = interference_filter.judged(launched(number, Load(others), BASELINE), spec, past)
        past.append(made)
        outdated = {each.number for each in interference_filter.outdated(past, spec)}
        past = [excluded(each) if each.number in outdated else each for each in past]
    return [each.outcome for each in past]


@pytest.mark.parametrize("cpus", [2, 8, 64], ids=str)
@pytest.mark.parametrize(
    ("mean", "spread", "least", "most"), [(0.7, 0.15, 0.3, 10), (0.0, 0.01, 0.0, 5)]
)
def test_a_machine_that_is_always_so_excludes_next_to_nothing(
    cpus: int, mean: float, spread: float, least: float, most: int
) -> None:
    """Others always take 30 % to 95 % of the cores, or next to nothing of them."""
    rng = random.Random(cpus)
    loads = [cpus * min(0.95, max(least, abs(rng.gauss(mean, spread)))) for _ in range(1000)]
    assert sum(bool(outcome.exclusion) for outcome in studied(loads, cpus)) <= most


def test_a_neighbour_that_comes_now_and_then_is_seen_each_time() -> None:
    loads = [1.9 if number % 10 == 5 else 0.03 for number in range(200)]
    found = [bool(outcome.exclusion) for outcome in studied(loads)]
    assert found == [number % 10 == 5 for number in range(200)]


def test_a_neighbour_that_comes_to_stay_costs_two_launches() -> None:
    loads = [0.03] * 20 + [1.9] * 50
    found = [bool(outcome.exclusion) for outcome in studied(loads)]
    assert sum(found) == 2
    assert found[20:22] == [True, True]


# --- what the result says of it --------------------------------------------------------------


def timed(
    number: int, elapsed_s: float, load: Load | None = None, aside: Exclusion | None = None
) -> LaunchRecord:
    made = record(number, FULL, elapsed_s)
    return replace(made, outcome=replace(made.outcome, load=load, exclusion=aside))


def told(*records: LaunchRecord) -> list[str]:
    return notes(History.judged(SPEC, records))


def test_of_a_quiet_machine_nothing_is_said() -> None:
    assert told() == []
    assert told(*(timed(n, 4.0, load=Load(0.05)) for n in range(1, 9))) == []


def test_excluded_launches_are_counted_with_the_last_reason() -> None:
    one = timed(
        1, 9.0, aside=Exclusion(ExclusionKind.INTERFERENCE, "other processes used 1.5 of 4 cores")
    )
    two = timed(2, 4.0)
    assert told(one, two) == [
        "1 launch was excluded (number 1: other processes used 1.5 of 4 cores)"
    ]
    hot = timed(
        3,
        9.0,
        aside=Exclusion(ExclusionKind.INTERFERENCE, "CPUs were slowed down for their temperature"),
    )
    assert told(one, two, hot) == [
        "2 launches were excluded (the last one, number 3: CPUs"
        " were slowed down for their temperature)"
    ]


def test_what_was_measured_anew_is_told_apart() -> None:
    old = [timed(number, 4.0, aside=REMEASURED) for number in (1, 2)]
    assert told(*old, timed(3, 4.0)) == ["2 earlier launches not counted: --remeasure"]


def test_a_permanent_load_is_told() -> None:
    busy = Load(1.4, "pid 6263 (python)")
    records = [timed(n, 4.0, load=busy if n % 3 else Load(1.0)) for n in range(1, 10)]
    assert told(*records) == [
        "this machine was not quiet: other processes used 1.4 of 4 cores during a launch, above all"
        " pid 6263 (python)"
    ]


def test_heat_and_swapping_are_told() -> None:
    hot = timed(1, 4.0, load=Load(0.0, hot=True))
    swapped = timed(2, 4.0, load=Load(0.0, swapped_bytes=5))
    assert told(hot, swapped) == [
        "this machine was not quiet: CPUs were slowed down for their temperature in 1 launch;"
        " memory was swapped"
    ]
