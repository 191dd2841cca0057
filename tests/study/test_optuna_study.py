"""The launches as trials of Optuna's: each is there once, whatever happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from tests.study_surface import (
    BEST,
    CRASH,
    SPEC,
    FakeRunner,
    Killed,
    counted_in,
    log,
    optuna_in,
    ran,
    record,
    records_in,
    study_in,
)
from tuner.model import (
    Ending,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Purpose,
    Setting,
    Stopped,
)
from tuner.store import Store
from tuner.study.history import History
from tuner.study.optuna_study import OptunaStudy
from tuner.study.trials import as_trial

STOPPED = Stopped(1.5, 3.0, 2.5, 3.5, 0.12, "drift")
INTERRUPTED = Failed(FailureKind.INTERRUPTED, "ended by the user")
UNTOLD = {Purpose.WARM_UP, Purpose.BASELINE, Purpose.CONFIRM}
GONE = "interrupted: ended by the user"


def launch(
    ending: Ending | float,
    setting: Setting = BEST,
    purpose: Purpose = Purpose.SEARCH,
    entries: int = 2,
) -> LaunchRecord:
    outcome = ran(ending)
    if isinstance(ending, Stopped):
        outcome = replace(outcome, progress=log(4.0)[:entries])
    return record(7, setting, purpose, outcome)


@pytest.mark.parametrize(
    ("made", "state", "value", "attributes", "seen"),
    [
        (launch(1.25), TrialState.COMPLETE, 1.25, {}, {}),
        (launch(STOPPED, entries=4), TrialState.PRUNED, 3.0, {}, {100: 3.0}),
        (launch(CRASH), TrialState.FAIL, None, {"failure": "crashed: exit status 1"}, {}),
        (launch(INTERRUPTED), TrialState.FAIL, None, {"failure": GONE}, {}),
    ],
)
def test_a_launch_is_trial_with_what_came_of_it(
    made: LaunchRecord,
    state: TrialState,
    value: float | None,
    attributes: dict[str, object],
    seen: dict[int, float],
) -> None:
    trial = as_trial(History.judged(SPEC, (made,)), made)
    assert (trial.state, trial.value, trial.params) == (state, value, BEST.as_dict())
    assert trial.user_attrs == {"launch": 7, **attributes}
    assert trial.intermediate_values == seen
    assert trial.datetime_start is not None
    assert trial.datetime_start.astimezone() == datetime.fromisoformat(made.started_at)
    assert trial.duration == timedelta(seconds=made.outcome.wall_s)


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
