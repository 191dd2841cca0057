"""Which rules stop which launches, and ``--max-time`` in a whole study."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from benchmarks import replay
from tests.study_surface import (
    BEST,
    CONFIRMED,
    ITERATIONS,
    SPEC,
    STARTUP_S,
    FakeRunner,
    optuna_in,
    ran,
    record,
    records_in,
    row_in,
    study_in,
    surface,
)
from tests.surfaces import surface as recorded_surface
from tuner.model import (
    BASELINE,
    Conclusion,
    Ending,
    Failed,
    Finished,
    ObjectiveSpec,
    Outcome,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
)
from tuner.model.errors import LimitReachedError
from tuner.model.stages import STAGES
from tuner.search.stopper import GoOn, TimeLimitStopper
from tuner.study import stopping_rules
from tuner.study.history import History
from tuner.study.stopping_rules import NextLaunch, stopper

#: Settings that take as long as this or longer are too slow.
MAX_S = 2.2
BOUNDED = replace(SPEC, max_time_s=MAX_S)


def test_every_rule_of_the_table_is_a_function() -> None:
    names = {name for stage in STAGES.values() for name in stage.rules}
    functions = dict(inspect.getmembers(stopping_rules, inspect.isfunction))
    rules = {
        name
        for name, function in functions.items()
        if list(inspect.signature(function).parameters) == ["launch"] and name != "stopper"
    }
    assert names == rules


def launched(
    purpose: Purpose, seconds: float, spec: StudySpec = BOUNDED, **options: Any
) -> Outcome:
    """A launch for this purpose after one that has shown how long a launch is."""
    history = History.judged(spec, [record(1, BASELINE, Purpose.WARM_UP, ran(1.0))])
    return ran(seconds, stopper=stopper(NextLaunch(purpose, BEST, history, **options)))


@pytest.mark.parametrize("purpose", [p for p in Purpose if p.stage.is_of_search])
def test_a_launch_of_the_search_is_stopped_by_where_it_is_heading(purpose: Purpose) -> None:
    outcome = launched(purpose, 5.0)
    assert isinstance(outcome.ending, Stopped)
    assert outcome.ending.bound_s < 5.0 / 2
    assert outcome.wall_s < STARTUP_S + 5.0
    assert isinstance(launched(purpose, MAX_S - 0.2).ending, Finished)
    assert isinstance(launched(purpose, 5.0, SPEC).ending, Finished), "nothing is asked for"


@pytest.mark.parametrize("purpose", [p for p in Purpose if not p.stage.is_of_search])
def test_another_launch_is_followed_for_the_whole_time(purpose: Purpose) -> None:
    ending = launched(purpose, 5.0).ending
    assert isinstance(ending, Stopped)
    assert MAX_S <= ending.bound_s <= 5.0


def test_a_program_that_writes_no_log_is_stopped() -> None:
    for purpose in Purpose:
        rule = stopper(NextLaunch(purpose, BEST, History.judged(BOUNDED, ())))
        assert rule is not None
        assert isinstance(rule([], 2 * MAX_S - 0.1, None), GoOn), "it may start for as long again"
        assert isinstance(rule([], 2 * MAX_S + 0.1, None), Stopped)


def test_the_time_of_a_window_is_that_of_a_full_run() -> None:
    history = History.judged(BOUNDED, [record(1, BASELINE, Purpose.WARM_UP, ran(1.0))])
    rule = stopper(NextLaunch(Purpose.SEARCH, BEST, history))
    assert rule is not None
    for pace_s, verdict in ((0.015, GoOn), (0.03, Stopped)):
        log = [(n, n * pace_s) for n in range(1, 11)]
        assert isinstance(rule.in_window()(log, log[-1][1], 0.0), verdict)


@pytest.mark.parametrize(
    ("objective", "shown"),
    [(ObjectiveSpec("wall"), []), (ObjectiveSpec(statistic="steady"), range(1, 60))],
)
def test_other_objectives_are_bounded_by_the_same_time(
    objective: ObjectiveSpec, shown: Any
) -> None:
    spec = replace(BOUNDED, objective=objective)
    for purpose in (Purpose.SEARCH, Purpose.BASELINE):
        for pace, verdict in ((0.5, GoOn), (4.0, Stopped)):
            history = History.judged(spec, [record(1, BASELINE, Purpose.WARM_UP, ran(1.0))])
            rule = stopper(NextLaunch(purpose, BEST, history))
            assert rule is not None
            log = [(n, n * pace * MAX_S / ITERATIONS) for n in shown]
            assert isinstance(rule(log, pace * MAX_S, 0.0), verdict)


def test_the_first_rule_that_holds_says_how_slow_it_is() -> None:
    by_pruner = TimeLimitStopper(0.1)
    ending = launched(Purpose.SEARCH, 5.0, by_pruner=by_pruner).ending
    assert isinstance(ending, Stopped)
    assert ending.rule == by_pruner([(1, 1.0)], 1.0, 0.0).rule  # type: ignore[union-attr]


# --- in a study --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "pruner"),
    [
        ("tune", "race"),
        ("random", "none"),
        ("tpe", "median"),
        ("random", "optuna.pruners:NopPruner"),
    ],
)
def test_it_holds_beside_every_sampler_and_pruner(folder: Path, sampler: str, pruner: str) -> None:
    spec = replace(BOUNDED, sampler=sampler, pruner=pruner)
    study_in(folder, FakeRunner(), spec)
    trials, slow = optuna_in(folder), 0
    for made in records_in(folder):
        is_slow, ending = surface(made.setting) > MAX_S, made.outcome.ending
        if made.trial is None or made.purpose is Purpose.REPEAT:
            continue
        slow += is_slow
        assert not isinstance(ending, Failed)
        assert isinstance(ending, Stopped) or not is_slow
        trial = trials[made.number]
        assert trial.state is (
            TrialState.PRUNED if isinstance(ending, Stopped) else TrialState.COMPLETE
        )
    assert slow, "the surface has settings that are too slow"


def test_of_defaults_over_it_the_pace_is_enough(folder: Path) -> None:
    """The best setting takes 1.0, the defaults 1.9: less than twice as long."""

    def seconds(setting: Setting) -> float | Ending:
        return 1.9 if setting == BASELINE else 0.9 + 0.1 * surface(setting)

    spec = replace(CONFIRMED, max_time_s=1.4)
    result = study_in(folder, FakeRunner(seconds), spec)
    assert result.conclusion is Conclusion.FASTER
    assert result.finding is not None
    assert result.finding.high is not None
    assert 1.5 < result.finding.low < 1.9 < result.finding.high
    baselines = [r.outcome for r in records_in(folder) if r.setting == BASELINE]
    assert all(isinstance(outcome.ending, Stopped) for outcome in baselines)


def test_too_short_a_time_is_one_error_and_a_longer_one_goes_on(folder: Path) -> None:
    with pytest.raises(LimitReachedError, match=r"each of 5 launches .* after 0\.\d") as caught:
        study_in(folder, FakeRunner(), replace(SPEC, max_time_s=0.1))
    assert "--max-time" in caught.value.hint
    before = len(records_in(folder))
    result = study_in(folder, FakeRunner(), replace(SPEC, max_time_s=3.0))
    assert result.best is not None
    assert result.best.setting == BEST
    assert len(records_in(folder)) > before
    assert row_in(folder).spec.max_time_s == 3.0


@pytest.mark.parametrize("live", ["off", "on"])
def test_it_holds_in_a_replay(tmp_path: Path, live: str) -> None:
    loaded = recorded_surface(tmp_path)
    most = {}
    for max_time_s in (None, 1.6 * loaded.unit_s):
        spec = replay.spec(loaded, options={"live": live, "max_time_s": max_time_s})
        study = replay.play(loaded, replace(spec, pruner="none"), 0)
        assert study.best is not None
        most[max_time_s] = max(
            launched.record.outcome.ending.elapsed_s
            for launched in study.launches
            if launched.record.purpose.stage.is_of_search
            and isinstance(launched.record.outcome.ending, Finished)
        )
    unbounded, bounded = most.values()
    assert bounded <= 1.7 * loaded.unit_s < unbounded
