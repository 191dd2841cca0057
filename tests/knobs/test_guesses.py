"""The list of first guesses is the only one."""

from __future__ import annotations

import optuna
import pytest
from optuna.distributions import BaseDistribution, IntDistribution

from tests.knobs.test_space import spec_of
from tuner.knobs import guesses, knob, space
from tuner.search import RuntimeSampler

ROW = {"threads": guesses.SHARE, "workers": 2, "worker_threads": 1, "bind_to": "none"}
SETTINGS = [(4, 4), (1, 1), (4, 2)]


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list with one entry more."""
    monkeypatch.setattr(guesses, "GUESSES", (*guesses.GUESSES, ROW))


def test_another_guess_of_a_study_is_one_entry() -> None:
    spec = spec_of(knob("omp_threads"), knob("iterator_workers"), ranks=2)
    names = "omp_threads", "iterator_workers"
    settings = [guess.as_dict() for guess in space.guesses(spec)]
    assert [tuple(map(setting.get, names)) for setting in settings] == SETTINGS


def test_the_sampler_suggests_another_guess_too() -> None:
    sampler = RuntimeSampler(cores=8, ranks=2, roles={"t": "threads", "w": "workers"})
    study = optuna.create_study(sampler=sampler)
    ranges: dict[str, BaseDistribution] = {"t": IntDistribution(1, 8), "w": IntDistribution(1, 8)}
    first = optuna.trial.create_trial(params={"t": 8, "w": 8}, distributions=ranges, value=9.0)
    study.add_trial(first)
    settings = []
    for _ in SETTINGS:
        trial = study.ask(ranges)
        settings.append((trial.params["t"], trial.params["w"]))
        study.tell(trial, 5.0)
    assert settings == SETTINGS
