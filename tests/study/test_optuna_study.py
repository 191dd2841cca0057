"""The launches as trials of Optuna's: each is there once, whatever happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.study_surface import (
    SPEC,
    FakeRunner,
    Killed,
    counted_in,
    optuna_in,
    records_in,
    study_in,
)
from tuner.model import (
    Exclusion,
    ExclusionKind,
    LaunchRecord,
    Purpose,
)
from tuner.store import Store
from tuner.study.optuna_study import OptunaStudy

UNTOLD = {Purpose.WARM_UP, Purpose.BASELINE, Purpose.CONFIRM}


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'tune.db'}"


def not_counted(folder: Path) -> None:
    with Store.open(url_of(folder), create=False) as store:
        store.exclude(SPEC.name, Exclusion(ExclusionKind.OTHER_HOST, "a neighbour"), {3})


def of_another_program(folder: Path) -> None:
    study = optuna.load_study(study_name=SPEC.name, storage=url_of(folder))
    study.add_trial(optuna.trial.create_trial(value=1.0, user_attrs={"launch": 2}))
    study.ask()  # left running, and no launch of ours


@pytest.mark.parametrize("act", [not_counted, of_another_program])
def test_a_study_goes_on_whatever_was_done_to_it(folder: Path, act: Callable[[Path], None]) -> None:
    study_in(folder, FakeRunner())
    act(folder)
    study_in(folder, FakeRunner(), replace(SPEC, trials=8))
    told = {r.number for r in records_in(folder) if r.purpose not in UNTOLD}
    assert optuna_in(folder).keys() == told
    assert (3 in counted_in(folder)) == (act is not not_counted)
    trials = optuna.load_study(study_name=SPEC.name, storage=url_of(folder)).trials
    assert all(trial.state.is_finished() for trial in trials)


@pytest.mark.parametrize(("method", "at"), [("tell", 1), ("tell", 6), ("_tell", 2)])
def test_killed_before_a_trial_is_told_it_is_told_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int, method: str
) -> None:
    """Before its attributes are set (``tell``), and after."""
    original = getattr(OptunaStudy, method)

    def tell(self: OptunaStudy, *args: Any) -> Any:
        if any(isinstance(each, LaunchRecord) and each.number == at for each in args):
            raise Killed
        return original(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(OptunaStudy, method, tell)
        with pytest.raises(Killed):
            study_in(folder, FakeRunner())
    assert len(records_in(folder)) == (at - 1 if method == "tell" else at)
    study_in(folder, FakeRunner())
    assert len(optuna_in(folder)) == 6
    assert [record.number for record in records_in(folder)][:at] == list(range(1, at + 1))
