"""What becomes of a launch that has ended, and of one that was ended from outside."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import optuna
import pytest
from optuna.trial import TrialState

from tests.study_surface import (
    SPEC,
    FakeRunner,
    counted_in,
    optuna_in,
    records_in,
    row_in,
    study_in,
    surface,
    trials_in,
    url_of,
)
from tuner.model import Exclusion, ExclusionKind, Failed, FailureKind, Purpose, Setting, StudyState
from tuner.model.errors import TunerError
from tuner.store.failures import from_os_error
from tuner.store.store import Store
from tuner.study.events import LaunchEnded
from tuner.study.journal import RECORD_FILE, Journal
from tuner.study.optuna_study import OptunaStudy


def at_launch(number: int, act: Callable[[], None]) -> Callable[[int], None]:
    """Does something while the so-manyth launch of a runner runs."""
    return lambda count: act() if count == number - 1 else None


def test_a_launch_is_reported_once_it_is_kept_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own record, its trial, the user: in this order."""
    seen: list[tuple[str, int]] = []

    def watch(owner: type, method: str, word: str, place: int) -> None:
        real = getattr(owner, method)

        def call(*args: Any, **options: Any) -> Any:
            found = real(*args, **options)
            seen.append((word, args[place].number))
            return found

        monkeypatch.setattr(owner, method, call)

    watch(Journal, "write", "record", 1)
    watch(Store, "keep", "attributes", 2)
    watch(OptunaStudy, "tell", "trial", 2)

    def on_event(event: object) -> None:
        if isinstance(event, LaunchEnded):
            number = event.record.number
            seen.append(("user", number))
            assert (Path(event.record.folder) / RECORD_FILE).is_file()
            assert [each.number for each in records_in(folder)][-1] == number
            assert event.record.trial is None or number in optuna_in(folder)

    study_in(folder, FakeRunner(), on_event=on_event)
    words = ["record", "attributes", "trial", "user"]
    assert seen == [(word, number) for number in range(1, 9) for word in words]


def test_what_could_be_kept_nowhere_is_trial_to_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(Journal, "write", Mock(side_effect=full))
    no_row = from_os_error(full, folder / "tune.db", "")
    monkeypatch.setattr(Store, "keep", Mock(side_effect=no_row))
    with pytest.raises(TunerError, match="the disk is full") as caught:
        study_in(folder, FakeRunner())
    assert "not saved: launch 1 (" in caught.value.hint and caught.value.hint.endswith(" s")


def test_a_trial_that_another_program_ends_meanwhile_is_added_again(folder: Path) -> None:
    def end_it() -> None:
        for name in ("surface", "surface/comparison"):
            study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder}/tune.db")
            for trial in study.get_trials(states=(TrialState.RUNNING,)):
                study.tell(trial.number, state=TrialState.FAIL)

    result = study_in(folder, FakeRunner(before=at_launch(3, end_it)))
    assert (result.trials, result.failures) == (6, 0)
    assert [record.number for record in records_in(folder)] == list(range(1, 9))


@pytest.mark.parametrize(("kind", "at"), [(FailureKind.INTERRUPTED, 1), (FailureKind.LOST_HOST, 4)])
def test_what_was_ended_from_outside_is_launched_again(
    folder: Path, kind: FailureKind, at: int
) -> None:
    endings = iter([None] * (at - 1) + [Failed(kind, "killed")] * 2)

    def time_s(setting: Setting) -> float | Failed:
        return next(endings, None) or surface(setting)

    found = study_in(folder, runner := FakeRunner(time_s))
    assert runner.settings[at - 1] == runner.settings[at] == runner.settings[at + 1]
    assert (found.trials, found.failures, found.launches) == (6, 0, 10)
    lost = [r for r in records_in(folder) if isinstance(r.outcome.ending, Failed)]
    assert [record.number for record in lost] == [at, at + 1]
    assert not {at, at + 1} & counted_in(folder), "no value for Optuna"


def test_three_in_a_row_end_the_study(folder: Path) -> None:
    lost = Failed(FailureKind.LOST_HOST, "node2 is gone")
    times: Iterator[float | Failed] = iter([2.0, lost, lost, 3.0, lost, lost, lost])
    with pytest.raises(TunerError, match="3 launches in a row were ended from outside") as caught:
        study_in(folder, FakeRunner(lambda _: next(times)))
    assert "node2 is gone" in caught.value.message and "same command" in caught.value.hint
    row = row_in(folder)
    assert (row.state, row.reason) == (StudyState.INTERRUPTED, caught.value.message)
    assert len(records_in(folder)) == 7
    assert study_in(folder, FakeRunner()).trials == 6


def removed(folder: Path) -> None:
    (folder / "tune.db").unlink()


def replaced(folder: Path) -> None:
    (folder / "tune.db").rename(folder / "elsewhere.db")
    shutil.copyfile(folder / "elsewhere.db", folder / "tune.db")


@pytest.mark.parametrize("act", [removed, replaced])
def test_a_database_that_goes_while_it_is_used_is_noticed(
    folder: Path, act: Callable[[Path], None]
) -> None:
    runner = FakeRunner(before=at_launch(4, lambda: act(folder)))
    with pytest.raises(TunerError, match="was moved, removed or replaced while") as caught:
        study_in(folder, runner)
    assert len(runner.settings) == 4, "before the next launch"
    record = json.loads((folder / "surface" / "0004" / RECORD_FILE).read_text())
    assert record["record"]["number"] == 4
    assert "put it back" in caught.value.hint
    assert str(folder / "surface" / "0004" / RECORD_FILE) in caught.value.hint
    if act is not removed:
        shutil.copyfile(folder / "elsewhere.db", folder / "back.db")
        (folder / "back.db").replace(folder / "tune.db")
        assert study_in(folder, again := FakeRunner()).trials == 6
        made = records_in(folder)
        assert [record.number for record in made] == list(range(1, len(made) + 1))
        assert len(again.settings) + 4 == len(made)


UNTOLD = {Purpose.WARM_UP, Purpose.BASELINE, Purpose.CONFIRM}


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
    assert all(trial.state.is_finished() for trial in trials_in(folder))
