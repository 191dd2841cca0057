from __future__ import annotations

import dataclasses

from tests.study_samples import FAST, record
from tuner.model import BASELINE, Choice, Flag, IntRange, Knob, Purpose, SideBySide
from tuner.results.explain import Remedy
from tuner.results.explain.explained_runs import median_run, remedy_sentence


def test_what_to_turn() -> None:
    assert remedy_sentence(None) == "no knob here addresses it"
    assert remedy_sentence(Remedy("omp_threads", "lower")) == "a lower omp_threads addresses it"
    by_launches = Remedy("jobs", "another", gain=4.839)
    said = "another value of jobs was at least 4.83 times better in this study"
    assert remedy_sentence(by_launches) == said
    said = remedy_sentence(Remedy("bind_to", "another", tuned=False))
    assert "another value of bind_to" in said
    assert "--knob bind_to=" in said


def test_the_median_run_of_a_setting_is_taken() -> None:
    runs = [record(n, FAST, time) for n, time in enumerate((3.0, 9.0, 1.0), 1)]
    warm_up = record(4, FAST, 2.9, purpose=Purpose.WARM_UP)
    other = record(5, BASELINE, 3.0)
    found = median_run([*runs, warm_up, other], FAST, lambda setting: setting)
    assert found is runs[0]
    outcome = dataclasses.replace(runs[0].outcome, side_by_side=SideBySide(7))
    pairs = [record(n, FAST, 3.0, outcome=outcome) for n in (6, 8, 10)]
    alone = median_run([runs[1], *pairs], FAST, lambda setting: setting)
    assert alone is runs[1], "of launches side by side nothing is recorded"
    assert median_run([other], FAST, lambda setting: setting) is None


def test_a_knob_at_its_end_is_no_remedy() -> None:
    from tuner.results.explain.cause import can_turn

    threads = Knob("omp_threads", IntRange(1, 4), Flag())
    assert not can_turn(threads, 1, "lower")
    assert can_turn(threads, 2, "lower")
    assert can_turn(threads, None, "lower")
    one = Knob("bind_to", Choice(("core",)), Flag())
    assert not can_turn(one, "core", "another")
    assert can_turn(one, "none", "another")
