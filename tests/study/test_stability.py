"""What the result says of a machine that was not steady."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.study_samples import SPEC, record, setting
from tuner.model import BASELINE, Exclusion, ExclusionKind, LaunchRecord, Load, Purpose, Setting
from tuner.study.history import History
from tuner.study.interference import REMEASURED, notes

BEST = setting(omp_threads=1, iterator_workers=1, communicator="naive")
MORNING = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


def launched(
    number: int,
    chosen: Setting,
    elapsed_s: float,
    purpose: Purpose = Purpose.SEARCH,
    load: Load | None = None,
    aside: Exclusion | None = None,
) -> LaunchRecord:
    made = record(number, chosen, elapsed_s, purpose=purpose)
    started = MORNING + timedelta(seconds=20 * number)
    outcome = replace(made.outcome, load=load, exclusion=aside)
    return replace(made, outcome=outcome, started_at=started.isoformat())


def told(*records: LaunchRecord) -> list[str]:
    return notes(History.judged(SPEC, records))


def in_turn(per_launch: float, spread: float = 0.01, seed: int = 1) -> list[LaunchRecord]:
    """The defaults, a search, and twelve launches in turn that get slower by a share."""
    rng = random.Random(seed)
    records = [launched(1, BASELINE, 8.0, Purpose.BASELINE), launched(2, BEST, 4.0)]
    for number in range(3, 27):
        chosen = (BASELINE, BEST, BEST, BASELINE)[number % 4]
        typical = 8.0 if chosen == BASELINE else 4.0
        took_s = typical * (1 + per_launch * (number - 1)) * (1 + rng.gauss(0, spread))
        records.append(launched(number, chosen, took_s, Purpose.CONFIRM))
    return records


def test_of_a_steady_machine_nothing_is_said() -> None:
    assert told() == []
    assert told(*in_turn(0.0)) == []
    quiet = [launched(n, BEST, 4.0, load=Load(0.05)) for n in range(1, 9)]
    assert told(*quiet) == []


def test_a_drifting_baseline_is_told_with_its_size() -> None:
    (note,) = told(*in_turn(0.005))
    assert note.startswith("the machine drifted: the same setting took 1")
    assert note.endswith(" % longer at the end than at the start (25 launches compared)")
    (faster,) = told(*in_turn(-0.005))
    assert " % less at the end" in faster


def test_launches_that_were_set_aside_are_counted_with_the_last_reason() -> None:
    one = launched(
        1,
        BEST,
        9.0,
        aside=Exclusion(ExclusionKind.INTERFERENCE, "other processes used 1.5 of 4 cores"),
    )
    two = launched(2, BEST, 4.0)
    assert told(one, two) == [
        "1 launch was excluded (number 1: other processes used 1.5 of 4 cores)"
    ]
    hot = launched(
        3,
        BEST,
        9.0,
        aside=Exclusion(ExclusionKind.INTERFERENCE, "CPUs were slowed down for their temperature"),
    )
    assert told(one, two, hot) == [
        "2 launches were excluded (the last one, number 3: CPUs"
        " were slowed down for their temperature)"
    ]


def test_what_was_measured_anew_is_told_apart() -> None:
    old = [launched(number, BEST, 4.0, aside=REMEASURED) for number in (1, 2)]
    assert told(*old, launched(3, BEST, 4.0)) == ["2 earlier launches not counted: --remeasure"]


def test_a_permanent_load_is_told() -> None:
    busy = Load(1.4, "pid 6263 (python)")
    records = [launched(n, BEST, 4.0, load=busy if n % 3 else Load(1.0)) for n in range(1, 10)]
    assert told(*records) == [
        "this machine was not quiet: other processes used 1.4 of 4 cores during a launch, above all"
        " pid 6263 (python)"
    ]


def test_heat_and_swapping_are_told() -> None:
    hot = launched(1, BEST, 4.0, load=Load(0.0, hot=True))
    swapped = launched(2, BEST, 4.0, load=Load(0.0, swapped_bytes=5))
    assert told(hot, swapped) == [
        "this machine was not quiet: CPUs were slowed down for their temperature in 1 launch;"
        " memory was swapped"
    ]
