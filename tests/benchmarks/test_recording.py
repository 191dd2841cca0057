"""Every setting of a space is launched in turn, and makes a surface."""

from __future__ import annotations

from benchmarks import record
from benchmarks.every_setting import EverySetting, settings
from tests.study_surface import CRASH, SPEC, ran, surface
from tests.study_surface import record as launched
from tuner.model import BASELINE, Purpose, Setting
from tuner.study.history import History
from tuner.study.policy import Step, Stop


def play(runs: int, failing: Setting | None = None, most: int = 1000) -> History:
    history = History.judged(SPEC, ())
    course = EverySetting(runs, Purpose.RECORD, (BASELINE,))
    while isinstance(step := course.next(history), Step):
        number = len(history.records) + 1
        assert number <= most, "it does not end"
        outcome = ran(CRASH if step.setting == failing else surface(step.setting))
        history = history.add(launched(number, step.setting, step.purpose, outcome))
    assert isinstance(step, Stop)
    return history


def test_each_setting_and_the_defaults_are_launched_in_turn() -> None:
    history = play(3)
    order = [launch.setting for launch in history.records]
    every = {BASELINE, *settings(history)}
    assert len(order) == 3 * len(every)
    for start in range(0, len(order), len(every)):
        assert set(order[start : start + len(every)]) == every


def test_what_always_fails_is_tried_twice() -> None:
    bad = Setting.of({"omp_threads": 4, "iterator_workers": 3})
    history = play(3, bad)
    assert sum(launch.setting == bad for launch in history.records) == 2
    points = {tuple(p["setting"].values()): p for p in record.document(history)["points"]}
    failed = points[(3, 4)]
    assert failed["failed"]
    assert (failed["runs"], failed["reason"]) == ([], "exit status 1")


def test_the_document_is_a_surface() -> None:
    document = record.document(play(2))
    assert (document["ranks"], document["iterations"], document["model"]) == (2, 100, False)
    assert document["knobs"] == {"omp_threads": [1, 2, 3, 4], "iterator_workers": [1, 2, 3]}
    assert len(document["points"]) == 12
    best = next(p for p in document["points"] if p["setting"]["omp_threads"] == 2)
    assert best["truth_s"] == 1.0
    assert best["runs"] == [[1.0, 0.01, 1.0]] * 2
    # the defaults take 4 s, as the slowest setting does
    assert document["default"] == {"omp_threads": 4, "iterator_workers": 3}
