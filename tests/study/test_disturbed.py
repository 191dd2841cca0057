"""A neighbour that comes and goes while a study runs decides no verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import (
    BEST,
    CONFIRMED,
    SPEC,
    FakeRunner,
    counted_in,
    events_of,
    records_in,
    study_in,
)
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Choice, Conclusion, Load, Outcome, Setting
from tuner.stats import estimates
from tuner.study.events import Note

BUSY, QUIET = Load(3.0, "pid 7 (python)"), Load(0.02)

#: As many times slower is whatever runs beside the neighbour.
SLOWED = 2.4

#: Two settings beside the defaults, which leave the number of threads to the program.
SMALL = replace(CONFIRMED, knobs=(replace(SPEC.knobs[0], domain=Choice((2, 4))),))
TWO, FOUR = (Setting.of({"omp_threads": number}) for number in (2, 4))


def gain(setting: Setting) -> float:
    """Seconds: with two threads the program is 1.25 times faster than by default."""
    return {TWO: 1.0, FOUR: 1.3}.get(setting, 1.25)


def no_gain(setting: Setting) -> float:
    return {TWO: 1.0, FOUR: 1.3}.get(setting, 1.0)


def beside(
    is_busy: Callable[[int, Setting], bool], time_s: Callable[[Setting], float] = gain
) -> tuple[Callable[..., Outcome], FakeRunner]:
    """A runner on a machine with a neighbour, and what keeps its launches.

    The neighbour is asked of the number of each launch, and of its setting.
    """
    kept = FakeRunner()

    def run(request: MeasurementRequest) -> Outcome:
        others = is_busy(len(kept.settings) + 1, request.setting)
        kept.time_s = lambda each: time_s(each) * (SLOWED if others else 1.0)
        return replace(kept(request), load=BUSY if others else QUIET)

    return run, kept


def test_a_setting_that_was_always_disturbed_is_launched_again_once_it_is_quiet(
    folder: Path,
) -> None:
    """As seen with ChainerMN: all settings beside a neighbour, then the defaults on their own."""
    events: list[Any] = []
    run, _ = beside(lambda number, _: 2 <= number <= 5)
    found = study_in(folder, run, SMALL, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, TWO)
    records = records_in(folder)
    disturbed = {r.number for r in records if r.outcome.load is not None and r.outcome.load.unusual}
    assert disturbed == {2, 3, 4, 5}
    counted = estimates.counted(records)
    assert not disturbed & {r.number for r in counted}
    assert {r.setting for r in counted} == {TWO, FOUR, BASELINE}
    assert not disturbed & counted_in(folder)
    said = [note.text for note in events_of(Note, events)]
    assert sum("counts all the same" in text for text in said) == 1
    assert "2 disturbed launches count no more: the machine is quiet again" in said


@pytest.mark.parametrize(("comes", "lasts"), [(4, 3), (9, 4)])
def test_whenever_a_neighbour_comes_and_goes_the_verdict_is_that_of_a_quiet_machine(
    folders: Callable[[str], Path], comes: int, lasts: int
) -> None:
    def is_busy(number: int, _: Setting) -> bool:
        return comes <= number < comes + lasts

    found = study_in(folders("gain"), beside(is_busy)[0], SMALL)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, TWO)
    assert found.finding is not None and found.finding.low <= 1.25
    same = study_in(folders("none"), beside(is_busy, no_gain)[0], SMALL)
    assert same.conclusion is not None and same.conclusion.keeps_baseline


@pytest.mark.parametrize("comes", [3, 10])
def test_a_neighbour_that_comes_to_stay_costs_two_launches_and_decides_nothing(
    folder: Path, comes: int
) -> None:
    run, _ = beside(lambda number, _: number >= comes)
    found = study_in(folder, run, SMALL)
    records = records_in(folder)
    assert sum(r.outcome.exclusion is not None for r in records) == 2
    assert found.conclusion is not Conclusion.NO_GAIN
    if found.finding is not None and found.finding.claim == "faster":
        assert found.finding.low <= 1.25


def test_a_setting_that_loads_the_machine_itself_is_not_repeated_for_ever(folder: Path) -> None:
    events: list[Any] = []
    run, kept = beside(lambda number, setting: number > 1 and setting == TWO)
    found = study_in(folder, run, SMALL, on_event=events.append)
    assert found.conclusion is not None and found.export == BASELINE
    assert 4 < kept.settings.count(TWO) < 9, "it counts from the fifth on"
    assert not any("though disturbed" in note for note in found.notes)
    said = [note.text for note in events_of(Note, events)]
    assert any("counts: its setting meets this whenever it is launched" in text for text in said)


def test_a_neighbour_that_always_comes_back_does_not_keep_the_study_from_its_end(
    folder: Path,
) -> None:
    run, kept = beside(
        lambda number, _: number % 7 > 2, lambda setting: 1.25 if setting != BEST else 1.0
    )
    found = study_in(folder, run, CONFIRMED)
    assert found.conclusion is not None and len(kept.settings) < 150
