"""Our search as a sampler of Optuna, and our race as a pruner: in any study, without the rest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from tuner.search import RacePruner, RuntimeSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


class TestAsOptunasOwn(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """The checks that Optuna's own samplers pass."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: RuntimeSampler(seed=0)


SPACE: dict[str, optuna.distributions.BaseDistribution] = {
    "threads": IntDistribution(1, 16),
    "comm": CategoricalDistribution(["naive", "flat"]),
}


def trial_of(
    threads: int, comm: str, state: TrialState = TrialState.COMPLETE, value: float | None = None
) -> FrozenTrial:
    if value is None and state is TrialState.COMPLETE:
        value = 3.0 + 0.3 * abs(threads - 4) + 0.5 * (comm == "naive")
    params = {"threads": threads, "comm": comm}
    return create_trial(state=state, value=value, params=params, distributions=SPACE)


def test_what_failed_or_runs_is_not_proposed_and_the_same_study_gets_the_same_proposals() -> None:
    def proposals() -> list[tuple[object, ...]]:
        study = optuna.create_study(sampler=RuntimeSampler(seed=1))
        tried = ((16, "naive"), (8, "flat"), (2, "flat"), (2, "naive"))
        study.add_trials([trial_of(*each) for each in tried])
        study.add_trial(trial_of(4, "flat", TrialState.FAIL))
        return [tuple(study.ask(SPACE).params.values()) for _ in range(6)]

    settings = proposals()
    assert (4, "flat") not in settings
    assert len(set(settings)) == len(settings)
    assert settings == proposals()


def test_the_guesses_come_first() -> None:
    sampler = RuntimeSampler(cores=8, ranks=2, roles={"t": "threads", "w": "workers"})
    study = optuna.create_study(sampler=sampler)
    domain = IntDistribution(1, 8)
    ranges: dict[str, optuna.distributions.BaseDistribution] = {"t": domain, "w": domain}
    study.add_trial(create_trial(params={"t": 8, "w": 8}, distributions=ranges, value=9.0))
    settings = []
    for _ in range(2):
        trial = study.ask(ranges)
        settings.append((trial.params["t"], trial.params["w"]))
        study.tell(trial, 5.0)
    assert settings == [(4, 4), (1, 1)]


def test_nothing_is_proposed_that_asks_for_too_many_cores() -> None:
    sampler = RuntimeSampler(cores=2, ranks=2, roles={"threads": "threads"}, oversubscribe=4.0)
    study = optuna.create_study(sampler=sampler)
    study.add_trials([trial_of(1, "naive"), trial_of(2, "flat", value=9.0)])
    for _ in range(12):
        trial = study.ask(SPACE)
        assert trial.params["threads"] <= 4
        study.tell(trial, 10.0 - trial.params["threads"])


@pytest.mark.parametrize(
    "given",
    [{"cores": 0}, {"ranks": 0}, {"precision": -1.0}, {"oversubscribe": 0}, {"roles": {"a": "b"}}],
)
def test_arguments_out_of_range_are_one_error(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        RuntimeSampler(**given)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_figures_that_are_no_times_do(direction: Literal["minimize", "maximize"]) -> None:
    study = optuna.create_study(sampler=RuntimeSampler(seed=0), direction=direction)
    sign = 1 if direction == "minimize" else -1
    study.optimize(lambda t: sign * (t.suggest_int("x", -10, 10) - 3) ** 2 - sign, n_trials=25)
    assert abs(study.best_params["x"] - 3) <= 1


@pytest.mark.parametrize(
    ("factor", "state"),
    [(2.0, TrialState.PRUNED), (1.02, TrialState.COMPLETE), (0.8, TrialState.COMPLETE)],
)
def test_a_trial_that_cannot_win_is_pruned_early_with_where_it_was_heading(
    factor: float, state: TrialState
) -> None:
    study = optuna.create_study(pruner=RacePruner())

    def objective(trial: Trial) -> float:
        total = 10.0 * (factor if trial.number == 2 else 1.0)
        for iteration in range(10, 101, 10):
            trial.report(total * iteration / 100, iteration)
            if trial.should_prune():
                raise optuna.TrialPruned
        return total

    study.optimize(objective, n_trials=3)
    assert [each.state for each in study.trials] == [TrialState.COMPLETE] * 2 + [state]
    if state is TrialState.PRUNED:
        trial = study.trials[2]
        assert max(trial.intermediate_values) <= 50
        projection_s = trial.system_attrs["tuner:stopped"]["projection_s"]
        assert projection_s == pytest.approx(20.0, rel=0.2)


def test_a_study_that_maximises_cannot_be_raced() -> None:
    study = optuna.create_study(pruner=RacePruner(), direction="maximize")
    trial = study.ask()
    trial.report(1.0, 1)
    with pytest.raises(ValueError, match="must minimise a time"):
        trial.should_prune()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("examples/threads.py", "--trials", "6"),
        ("examples/surface.py", "--trials", "15"),
        ("hub/samplers/runtime_sampler/example.py",),
        ("hub/pruners/race_pruner/example.py",),
    ],
)
def test_the_examples_run(words: tuple[str, ...]) -> None:
    argv, root = [sys.executable, *words], Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "fastest:" in done.stdout
