"""What `tune` decides can be decided again from its database, with the documented snippet."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.study_surface import SPEC, FakeRunner, Killed, nearly_flat, study_in
from tuner.model import Purpose
from tuner.search import RuntimeTerminator
from tuner.study.events import LaunchEnded, LaunchStarted

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "optuna.md"
(SNIPPET,) = (
    code
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    if "NAME" in code
)

STUDY = replace(SPEC, trials=3, confirm="auto", until=0.001)


def decided_again(folder: Path) -> tuple[bool, dict[str, Any]]:
    """Whether the search is over, and the setting that is next, by the database as it is."""
    copy = folder / "copy.db"
    with (
        closing(sqlite3.connect(folder / "tune.db")) as database,
        closing(sqlite3.connect(copy)) as connection,
    ):
        database.backup(connection)
    code = (
        SNIPPET.replace("NAME", SPEC.name).replace("copy.db", str(copy)).replace("print", "answer")
    )
    answers: list[dict[str, Any]] = []
    names: dict[str, Any] = {"answer": answers.append}
    exec(code.replace("print", "answer"), names)
    study: optuna.Study = names["study"]
    study.tell(study.trials[-1].number, state=optuna.trial.TrialState.FAIL)
    is_over = RuntimeTerminator(study.sampler).should_terminate(study)  # type: ignore[arg-type]
    return is_over, answers[0]


class Witness:
    """Decides again after each launch, and holds that against the launch that comes then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.decided: tuple[bool, dict[str, Any]] | None = None
        self.compared = 0

    def __call__(self, event: Any) -> None:
        if isinstance(event, LaunchEnded):
            self.decided = decided_again(self.folder)
        is_next = isinstance(event, LaunchStarted) and event.purpose is not Purpose.WARM_UP
        if is_next and self.decided is not None:
            is_over, params = self.decided
            assert is_over == (event.purpose is Purpose.CONFIRM)
            assert is_over or params == event.setting.as_dict(), event.purpose
            self.compared += 1


def test_after_each_launch_anyone_gets_the_setting_that_comes_next_of_a_killed_study_too(
    tmp_path: Path,
) -> None:
    def kill(launches: int) -> None:
        if launches == 3:
            raise Killed

    witness = Witness(tmp_path)
    with pytest.raises(Killed):
        study_in(tmp_path, FakeRunner(nearly_flat, before=kill), STUDY, on_event=witness)
    study_in(tmp_path, FakeRunner(nearly_flat), STUDY, on_event=witness)
    assert witness.compared >= 6
