"""What becomes of a launch that has ended, and of one that was ended from outside."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.study_surface import BEST, SPEC, FakeRunner, Killed, events_of, nearly_flat, surface
from tuner.model import (
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Outcome,
    Result,
    Setting,
    StudyState,
    Telemetry,
)
from tuner.model.errors import TunerError
from tuner.store.failures import disk_full
from tuner.store.store import Store
from tuner.study import tune
from tuner.study.events import LaunchEnded, Note
from tuner.study.optuna_trials import OURS, Projection
from tuner.study.recorder import NAME, PART, Journal


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them."""
    path = tmp_path_factory.mktemp("template") / "tune.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        Projection(store, "none").close()
    return path


@pytest.fixture
def folder(tmp_path: Path, template: Path) -> Path:
    shutil.copyfile(template, tmp_path / "tune.db")
    return tmp_path


def run(folder: Path, runner: FakeRunner, **options: Any) -> Result:
    return tune(SPEC, storage=str(folder / "tune.db"), run=runner, **options)


def records(folder: Path) -> list[LaunchRecord]:
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        return store.launches(SPEC.name)


def state(folder: Path) -> tuple[StudyState, str]:
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        row = store.load(SPEC.name)
    return row.state, row.reason


def told(folder: Path) -> dict[int, int]:
    """Optuna's trials by the launches that they tell of."""
    study = optuna.load_study(study_name=SPEC.name, storage=f"sqlite:///{folder / 'tune.db'}")
    return {trial.user_attrs["launch"]: trial.number for trial in study.trials}


def at_launch(number: int, act: Callable[[], None]) -> Callable[[int], None]:
    """Does something while the so-manyth launch of a runner runs."""
    return lambda count: act() if count == number - 1 else None


# --- the order ---------------------------------------------------------------------------


def test_a_launch_is_reported_once_it_is_kept_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own record, our tables, Optuna, the user: in this order."""
    seen: list[tuple[str, int]] = []

    def watch(owner: type, method: str, word: str, place: int) -> None:
        real = getattr(owner, method)

        def call(*args: Any, **options: Any) -> Any:
            found = real(*args, **options)
            record = args[place].records[-1] if owner is Projection else args[place]
            seen.append((word, record.number))
            return found

        monkeypatch.setattr(owner, method, call)

    watch(Journal, "write", "record", 1)
    watch(Store, "add", "tables", 2)
    watch(Projection, "tell", "Optuna", 1)

    def on_event(event: object) -> None:
        if isinstance(event, LaunchEnded):
            number = event.record.number
            seen.append(("user", number))
            assert (Path(event.record.folder) / NAME).is_file()
            assert [each.number for each in records(folder)][-1] == number
            assert event.record.trial is None or number in told(folder)

    run(folder, FakeRunner(), on_event=on_event)
    words = ["record", "tables", "Optuna", "user"]
    assert seen == [(word, number) for number in range(1, 9) for word in words]


@pytest.mark.parametrize("owner", [Store, Projection])
def test_killed_after_any_step_it_is_measured_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, owner: type
) -> None:
    def die(*_: object) -> None:
        raise Killed

    events: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(owner, "add" if owner is Store else "tell", die)
        with pytest.raises(Killed):
            run(folder, FakeRunner(), on_event=events.append)
    assert not events_of(LaunchEnded, events)
    runner = FakeRunner()
    run(folder, runner, on_event=events.append)
    made = records(folder)
    assert [record.number for record in made] == list(range(1, 10)), "with a second warm-up"
    assert len(runner.settings) == 8
    assert told(folder) == {r.number: r.trial for r in made if r.trial is not None}
    notes = [note.text for note in events_of(Note, events)]
    assert any(f"{NAME}: the database has it now" in note for note in notes) == (owner is Store)


def test_a_study_begun_anew_adopts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder, FakeRunner())
    kept = folder / "kept"
    shutil.copytree(folder / "surface", kept)
    run(folder, FakeRunner(nearly_flat), fresh=True)
    shutil.copytree(kept, folder / "surface", dirs_exist_ok=True)
    before = [record.number for record in records(folder)]
    run(folder, FakeRunner(nearly_flat), fresh=False)
    assert [record.number for record in records(folder)] == before


def test_an_older_copy_of_the_database_gets_what_it_lacks(folder: Path) -> None:
    def copy() -> None:
        shutil.copyfile(folder / "tune.db", folder / "old.db")

    run(folder, FakeRunner(before=at_launch(4, copy)))
    whole = records(folder)
    shutil.copyfile(folder / "old.db", folder / "tune.db")
    runner = FakeRunner()
    run(folder, runner)
    assert records(folder) == whole and runner.settings == []
    assert told(folder) == {r.number: r.trial for r in whole if r.trial is not None}


def test_half_a_record_is_named_and_measured_again(folder: Path) -> None:
    def die() -> None:
        raise Killed

    with pytest.raises(Killed):
        run(folder, FakeRunner(before=at_launch(3, die)))
    left = folder / "surface" / "0003"
    (left / PART).rename(left / NAME)
    events: list[Any] = []
    run(folder, FakeRunner(), on_event=events.append)
    (note,) = [n.text for n in events_of(Note, events) if NAME in n.text]
    assert note == f"{left / NAME} is no record of a launch: it is left as it is"
    assert [r.number for r in records(folder)] == list(range(1, len(records(folder)) + 1))
    assert Path(records(folder)[2].folder).name == "0003-2", "with nothing of the old one in it"


def test_a_record_that_cannot_be_written_leaves_the_database(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Journal, "write", fail)
    events: list[Any] = []
    assert run(folder, FakeRunner(), on_event=events.append).trials == 6
    assert len([n for n in events_of(Note, events) if "database alone" in n.text]) == 8


def test_what_could_be_kept_nowhere_is_told_to_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_record(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_row(*_: object) -> None:
        raise disk_full(folder / "tune.db")

    monkeypatch.setattr(Journal, "write", no_record)
    monkeypatch.setattr(Store, "add", no_row)
    with pytest.raises(TunerError, match="the disk is full") as caught:
        run(folder, FakeRunner())
    assert "Not saved: launch 1 (" in caught.value.hint and " s." in caught.value.hint


def test_a_second_signal_while_it_is_kept_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Journal.write
    strikes = iter([None, KeyboardInterrupt, None])

    def write(self: Journal, record: LaunchRecord) -> None:
        strike = next(strikes, None)
        if strike is not None:
            raise strike
        real(self, record)

    monkeypatch.setattr(Journal, "write", write)
    with pytest.raises(KeyboardInterrupt):
        run(folder, FakeRunner())
    run(folder, FakeRunner())
    elapsed = [sample.elapsed_s for r in records(folder)[:2] for sample in r.outcome.samples]
    assert len(elapsed) == 2, "the launch that had ended is there"


# --- ended from outside ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FailureKind.INTERRUPTED, FailureKind.LOST_HOST])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_what_was_ended_from_outside_is_launched_again(
    folder: Path, kind: FailureKind, at: int
) -> None:
    endings = iter([None] * (at - 1) + [Failed(kind, "killed")] * 2)

    def time_s(setting: Setting) -> float | Failed:
        return next(endings, None) or surface(setting)

    found = run(folder, runner := FakeRunner(time_s))
    assert runner.settings[at - 1] == runner.settings[at] == runner.settings[at + 1]
    assert (found.trials, found.failures, found.launches) == (6, 0, 10)
    lost = [r for r in records(folder) if isinstance(r.outcome.ending, Failed)]
    assert [record.number for record in lost] == [at, at + 1]
    assert all(record.trial is None for record in lost), "no value for Optuna"


def test_three_in_a_row_end_the_study(folder: Path) -> None:
    lost = Failed(FailureKind.LOST_HOST, "node2 is gone")
    times: Iterator[float | Failed] = iter([2.0, lost, lost, 3.0, lost, lost, lost])
    with pytest.raises(TunerError, match="3 launches in a row were ended from outside") as caught:
        run(folder, FakeRunner(lambda _: next(times)))
    assert "node2 is gone" in caught.value.message and "same command" in caught.value.hint
    assert state(folder) == (StudyState.INTERRUPTED, caught.value.message)
    assert len(records(folder)) == 7
    assert run(folder, FakeRunner()).trials == 6


def test_a_full_disk_ends_the_study_at_once(folder: Path) -> None:
    full = Failed(FailureKind.DISK_FULL, "No space left on device")
    times: Iterator[float | Failed] = iter([2.0, 2.0, full])
    runner = FakeRunner(lambda _: next(times))
    with pytest.raises(TunerError, match="the disk is full"):
        run(folder, runner)
    assert len(runner.settings) == len(records(folder)) == 3
    assert state(folder)[0] is StudyState.INTERRUPTED
    assert run(folder, again := FakeRunner()).trials == 6
    assert again.settings[1] == runner.settings[2]


def test_no_room_for_the_record_is_found_before_the_launch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    runner = FakeRunner()
    with pytest.raises(TunerError, match="the disk is full"):
        run(folder, runner)
    assert runner.settings == []
    monkeypatch.undo()
    os.environ["TUNE_LOCK_DIR"] = str(folder / "lock")
    run(folder, runner)
    assert runner.launches[0].folder.name == "0001", "nothing was left of the first"


# --- the database while it runs ----------------------------------------------------------


def moved(folder: Path) -> None:
    (folder / "tune.db").rename(folder / "elsewhere.db")


def removed(folder: Path) -> None:
    (folder / "tune.db").unlink()


def replaced(folder: Path) -> None:
    moved(folder)
    shutil.copyfile(folder / "elsewhere.db", folder / "tune.db")


def put_back(folder: Path) -> None:
    shutil.copyfile(folder / "elsewhere.db", folder / "back.db")
    (folder / "back.db").replace(folder / "tune.db")


@pytest.mark.parametrize("act", [moved, removed, replaced])
def test_a_database_that_goes_while_it_is_used_is_noticed(
    folder: Path, act: Callable[[Path], None]
) -> None:
    runner = FakeRunner(before=at_launch(4, lambda: act(folder)))
    with pytest.raises(TunerError, match=r"was (moved or removed|replaced).* while") as caught:
        run(folder, runner)
    assert len(runner.settings) == 4, "before the next launch"
    record = json.loads((folder / "surface" / "0004" / NAME).read_text())
    assert record["record"]["number"] == 4
    assert "Put it back" in caught.value.hint
    assert str(folder / "surface" / "0004" / NAME) in caught.value.hint
    if act is not removed:
        put_back(folder)
        assert run(folder, again := FakeRunner()).trials == 6
        made = records(folder)
        assert [record.number for record in made] == list(range(1, len(made) + 1))
        assert len(again.settings) + 4 == len(made)


def test_a_study_of_optunas_that_was_half_made_is_made_anew(folder: Path) -> None:
    url = f"sqlite:///{folder / 'tune.db'}"
    with Store.open(url, create=True) as store:
        store.create(SPEC)
    optuna.create_study(study_name=SPEC.name, storage=url)
    found = run(folder, FakeRunner())
    assert found.best is not None and found.best.setting == BEST
    study = optuna.load_study(study_name=SPEC.name, storage=url)
    assert OURS in study.user_attrs and len(study.trials) == 6


def test_what_optuna_was_told_and_is_not_so_is_told_anew(folder: Path) -> None:
    run(folder, FakeRunner())
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        store.exclude(SPEC.name, Exclusion(ExclusionKind.INTERFERENCE, "a neighbour"))
        store.set_state(SPEC.name, StudyState.RUNNING, "")
    run(folder, FakeRunner())
    made = records(folder)
    assert told(folder) == {r.number: r.trial for r in made if r.trial is not None}
    assert all(r.trial is None for r in made if r.outcome.exclusion)


def test_what_stands_in_the_record_is_what_is_stored(folder: Path) -> None:
    run(folder, FakeRunner())
    for record in records(folder):
        document = json.loads((Path(record.folder) / NAME).read_text())["record"]
        assert document["started_at"] == record.started_at
        assert (Path(record.folder) / NAME).stat().st_mode & 0o777 == 0o600
        assert replace(record, trial=None).number == document["number"]


def test_what_was_recorded_is_in_the_database_alone(folder: Path) -> None:
    class Recorded(FakeRunner):
        def __call__(self, *args: Any, **options: Any) -> Outcome:
            outcome = super().__call__(*args, **options)
            return replace(outcome, telemetry=Telemetry(gaps=(f"launch {len(self.settings)}",)))

    events: list[Any] = []
    run(folder, Recorded(), on_event=events.append)
    ended = [event.record for event in events if isinstance(event, LaunchEnded)]
    assert ended and all(record.outcome.telemetry is None for record in ended), "thousands fit"
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        for record in ended:
            found = store.telemetry(SPEC.name, record.number)
            assert found == Telemetry(gaps=(f"launch {record.number}",))
