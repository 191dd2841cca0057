"""A study starts from what an earlier one in the same database showed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import BEST, SPEC, FakeRunner, events_of, records_in, row_in, study_in
from tuner.model import Choice, Flag, Knob, Layout, Purpose, StudySpec
from tuner.model.errors import UsageError
from tuner.study.events import Note
from tuner.study.interruption import StudyInterrupted

#: The same program with fewer ranks.
EARLIER = replace(SPEC, name="earlier", layout=Layout(1), learn_from="none")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of that study once it is finished; no test writes to it."""
    folder = tmp_path_factory.mktemp("finished")
    play(folder, EARLIER)
    return folder / "tune.db"


@pytest.fixture
def after(folder: Path, finished: Path) -> Path:
    shutil.copy(finished, folder)
    return folder


def play(folder: Path, spec: StudySpec, runner: FakeRunner | None = None) -> list[str]:
    """Run a study to its end; what was said of where it starts."""
    events: list[Any] = []
    study_in(folder, runner or FakeRunner(), spec, on_event=events.append)
    return [note.text for note in events_of(Note, events) if note.text.startswith("starts")]


def guesses(folder: Path) -> list[object]:
    return [record.setting for record in records_in(folder) if record.purpose is Purpose.GUESS]


def test_it_starts_from_the_newest_of_the_same_program_and_says_so(after: Path) -> None:
    assert play(after, SPEC) == ["starts from earlier (same program, 1 rank)"]
    assert BEST in guesses(after)
    lesson = row_in(after).spec.lesson
    assert lesson is not None
    assert lesson.study == "earlier"


def other_program(spec: StudySpec) -> StudySpec:
    return replace(spec, command=("other", *spec.command[1:]))


def other_knob(spec: StudySpec) -> StudySpec:
    return replace(spec, knobs=(Knob("prefetch", Choice((1, 2, 3)), Flag("-p")),))


@pytest.mark.parametrize("other", [other_program, other_knob])
def test_nothing_is_learnt_from_another_one(
    after: Path, other: Callable[[StudySpec], StudySpec]
) -> None:
    assert play(after, replace(other(SPEC), name="other")) == []


def test_a_study_that_cannot_be_read_teaches_nothing_and_stops_nothing(after: Path) -> None:
    with closing(sqlite3.connect(after / "tune.db")) as connection, connection:
        damage = "UPDATE trial_user_attributes SET value_json = '7' WHERE key LIKE 'tune:%'"
        connection.execute(damage)
    assert play(after, SPEC) == []


def test_a_study_that_cannot_teach_is_one_error_before_anything_starts(after: Path) -> None:
    play(after, SPEC)
    play(after, replace(other_knob(EARLIER), name="knob"))
    for name in (SPEC.name, "knob"):
        runner = FakeRunner()
        with pytest.raises(UsageError, match=f"--learn-from {name}: "):
            play(after, replace(SPEC, learn_from=name), runner)
        assert not runner.launches


def test_it_goes_on_as_it_was_begun_whatever_others_do_meanwhile(
    after: Path, folders: Callable[[str], Path]
) -> None:
    def stop(count: int) -> None:
        if count == 4:
            raise KeyboardInterrupt

    undisturbed = folders("undisturbed")
    play(undisturbed, EARLIER)
    play(undisturbed, SPEC)
    with pytest.raises(StudyInterrupted):
        play(after, SPEC, FakeRunner(before=stop))
    play(after, replace(EARLIER, name="later", trials=3))
    play(after, replace(EARLIER, trials=2), FakeRunner(lambda _: 7.0))
    assert play(after, SPEC) == [], "it is said once"
    assert row_in(after).spec.lesson == row_in(undisturbed).spec.lesson
    assert guesses(after) == guesses(undisturbed)
