"""Optuna drives the search: whatever samples and prunes, what it says is what happens."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from tests.study_surface import (
    SPEC,
    FakeRunner,
    events_of,
    nearly_flat,
    optuna_in,
    records_in,
    study_in,
    surface,
    trials_in,
    url_of,
)
from tuner.model import Choice, Flag, Knob, Purpose, Setting, Stopped, StudySpec, StudyState
from tuner.model.errors import TunerError, UsageError
from tuner.study import running_trial
from tuner.study.events import LaunchProgress, Note

MODULE, WALL = "samplers_of_mine", replace(SPEC.objective, kind="wall")

MINE = """
import optuna

def no_idea(*_):
    raise ValueError("no idea")

def sampler(value):
    class Sampler(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, param_name, param_distribution):
            return value()
    return Sampler

def pruner(answer):
    class Pruner(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return answer(trial)
    return Pruner

Raising, Stubborn, Outside = sampler(no_idea), sampler(lambda: 2), sampler(lambda: 99)
Prunes, Breaks, Silent = pruner(lambda _: True), pruner(no_idea), pruner(lambda _: None)

class EndsAtFour(optuna.terminator.BaseTerminator):
    def should_terminate(self, study):
        return len(study.get_trials()) >= 4
"""


@pytest.fixture
def mine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the current folder."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    (folder / f"{MODULE}.py").write_text(MINE)
    (folder / "broken_of_mine.py").write_text("class Sampler(")
    return MODULE


NEW = {"omp_threads": 3, "iterator_workers": 3}


def searched_in(folder: Path) -> list[Setting]:
    return [r.setting for r in records_in(folder) if r.purpose is Purpose.SEARCH]


@pytest.mark.parametrize("name", ["tpe", "brute-force", "gp", "cmaes"])
def test_each_sampler_makes_a_study_without_a_setting_twice(folder: Path, name: str) -> None:
    needs = {"gp": ("torch", "scipy"), "cmaes": ("cmaes",)}.get(name, ())
    spec = replace(SPEC, sampler=name, trials=8)
    missing = " ".join(package for package in needs if find_spec(package) is None)
    if missing:
        with pytest.raises(UsageError, match=f"--sampler {name} needs {missing}"):
            study_in(folder, FakeRunner(), spec)
        return
    assert study_in(folder, FakeRunner(nearly_flat), spec).state is StudyState.FINISHED
    tried = [r.setting for r in records_in(folder) if r.purpose in {Purpose.GUESS, Purpose.SEARCH}]
    assert max(Counter(tried).values()) == 1
    assert not [trial for trial in trials_in(folder) if not trial.state.is_finished()]
    assert set(optuna_in(folder)) == {r.number for r in records_in(folder) if r.trial is not None}


def test_a_setting_that_is_known_is_told_and_not_launched_again(folder: Path, mine: str) -> None:
    events, spec = list[Any](), replace(SPEC, sampler=f"{mine}:Stubborn")
    study_in(folder, FakeRunner(), spec, on_event=events.append)
    assert len(set(searched_in(folder))) == len(searched_in(folder)) == 4
    redrawn = [trial for trial in trials_in(folder) if "redrawn" in trial.user_attrs]
    assert redrawn
    assert {trial.state for trial in redrawn} == {TrialState.FAIL}, "none counts twice"
    assert len({t.params["omp_threads"] for t in optuna_in(folder).values()}) > 1
    notes = [note.text for note in events_of(Note, events)]
    assert any("suggestions of" in text and "not launched" in text for text in notes)


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"sampler": "tpee"}, "there is no such sampler", "did you mean 'tpe'"),
        ({"sampler": "nowhere:Sampler"}, "No module named 'nowhere'", "module:Class"),
        ({"sampler": f"{MODULE}:Prunes"}, "is not an Optuna sampler", "optuna.samplers.BaseSamp"),
        ({"sampler": "broken_of_mine:Sampler"}, "SyntaxError", "module:Class"),
        ({"terminator": f"{MODULE}:Prunes"}, "is not an Optuna terminator", "BaseTerminator"),
        ({"pruner": "median", "objective": WALL}, "--pruner median needs an objective that", ""),
    ],
)
def test_what_cannot_be_used_is_one_error_before_anything_is_made(
    folder: Path, mine: str, options: dict[str, Any], said: str, hint: str
) -> None:
    assert mine
    with pytest.raises(UsageError) as caught:
        study_in(folder, FakeRunner(), replace(SPEC, **options))
    assert said in caught.value.message and hint in caught.value.hint


@pytest.mark.parametrize(
    ("name", "said"),
    [("Raising", "ValueError: no idea"), ("Outside", "ValueError: it suggests omp_threads=99")],
)
def test_a_sampler_that_fails_ends_the_study_and_loses_nothing(
    folder: Path, mine: str, name: str, said: str
) -> None:
    with pytest.raises(TunerError, match=f"the sampler {mine}:.* failed: {said}"):
        study_in(folder, FakeRunner(), replace(SPEC, sampler=f"{mine}:{name}"))
    assert said in (folder / "surface" / "sampler-traceback.txt").read_text()
    assert not [trial for trial in trials_in(folder) if not trial.state.is_finished()]
    before = records_in(folder)
    assert len(before) == 4
    assert study_in(folder, FakeRunner()).trials == 6
    assert records_in(folder)[: len(before)] == before
    assert not [trial for trial in trials_in(folder) if not trial.state.is_finished()]


def test_what_another_program_enqueues_is_launched_once(folder: Path) -> None:
    def enqueue(count: int) -> None:
        if count == 4:
            study = optuna.load_study(study_name=SPEC.name, storage=url_of(folder))
            known = study.get_trials(deepcopy=False)[0].params
            for params in (known, NEW, NEW | {"omp_threads": 99}):
                study.enqueue_trial(params)

    study_in(folder, FakeRunner(before=enqueue))
    trials = [trial for trial in trials_in(folder) if trial.system_attrs.get("fixed_params")]
    known, new, outside = trials[-3:]
    assert "measured by launch 2" in known.user_attrs["redrawn"]
    assert new.params == NEW and searched_in(folder).count(Setting.of(NEW)) == 1
    assert (outside.state, "99" in outside.user_attrs["failure"]) == (TrialState.FAIL, True)


def test_what_a_pruner_of_the_users_says_is_what_happens(
    folder: Path, mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_trial, "REPORT_EVERY_S", 0.0)
    study_in(folder, FakeRunner(), replace(SPEC, pruner=f"{mine}:Prunes"))
    endings = [r.outcome.ending for r in records_in(folder) if r.trial is not None]
    assert endings
    assert all(isinstance(each, Stopped) and each.rule == "pruner" for each in endings)
    trials = trials_in(folder)
    assert {trial.state for trial in trials} == {TrialState.PRUNED}
    projections = [each.projection_s for each in endings if isinstance(each, Stopped)]
    heading_for = [surface(Setting.of(trial.params)) for trial in trials]
    assert projections == pytest.approx(heading_for, rel=0.1)
    for name, fault in (("Silent", "it answered None"), ("Breaks", "no idea")):
        failed = f"the pruner {mine}:.* failed: ValueError: {fault}"
        with pytest.raises(TunerError, match=failed):
            study_in(folder, FakeRunner(), replace(SPEC, pruner=f"{mine}:{name}"), fresh=True)
    assert "no idea" in (folder / "surface" / "pruner-traceback.txt").read_text()
    assert {trial.state for trial in trials_in(folder)} == {TrialState.FAIL}


def test_a_terminator_of_the_users_ends_the_search_and_then_the_best_is_compared(
    folder: Path, mine: str
) -> None:
    spec = replace(SPEC, trials=10**6, confirm="auto", terminator=f"{mine}:EndsAtFour")
    result = study_in(folder, FakeRunner(nearly_flat), spec)
    assert result.reason == f"--terminator {mine}:EndsAtFour ended the search"
    purposes = [record.purpose for record in records_in(folder)]
    searched = [p for p in purposes if p in {Purpose.GUESS, Purpose.SEARCH, Purpose.REPEAT}]
    assert len(searched) == 4
    assert Purpose.BASELINE in purposes and Purpose.CONFIRM in purposes


def test_a_running_trial_is_seen_with_its_curve(folder: Path) -> None:
    seen: list[list[FrozenTrial]] = []
    reported: list[dict[int, float]] = []

    def look(event: object) -> None:
        if isinstance(event, LaunchProgress) and event.number == 3:
            running = [t for t in trials_in(folder) if t.state is TrialState.RUNNING]
            reported.extend(trial.intermediate_values for trial in running)

    def before(count: int) -> None:
        if count:
            seen.append([t for t in trials_in(folder) if t.state is TrialState.RUNNING])

    study_in(folder, runner := FakeRunner(before=before), on_event=look)
    assert [len(each) for each in seen] == [1, 1, 0, 1, 1, 1, 1], "the baseline is none"
    launched = [setting.as_dict() for setting in runner.settings[1:]]
    assert all(not now or now[0].params == made for now, made in zip(seen, launched, strict=True))
    assert any(25 in values for values in reported)
    trials = trials_in(folder)
    assert all(t.datetime_start and t.datetime_complete for t in trials)


def test_choices_may_change(folder: Path) -> None:
    def with_choices(*values: str) -> StudySpec:
        return replace(SPEC, knobs=(Knob("wait", Choice(values), Flag("-w")),), trials=9)

    study_in(folder, FakeRunner(lambda _: 1.0), with_choices("a", "b", "c"))
    before = {trial.number: trial for trial in trials_in(folder)}
    assert {trial.params["wait"] for trial in before.values()} == {"a", "b", "c"}
    study_in(folder, FakeRunner(lambda _: 1.0), with_choices("x", "b", "a"))
    after = {trial.number: trial for trial in trials_in(folder)}
    assert {after[n].params.get("wait") for n in before} == {"a", "b", None}
    for number, trial in before.items():
        assert after[number].params == {k: v for k, v in trial.params.items() if v != "c"}
        assert (after[number].value, after[number].user_attrs) == (trial.value, trial.user_attrs)
    spaces = {space for trial in after.values() for space in trial.distributions.values()}
    assert spaces == {CategoricalDistribution(("x", "b", "a"))}
    assert "x" in {trial.params.get("wait") for trial in after.values()}
