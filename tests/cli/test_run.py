"""The end of ``tune run``: what is printed and the exit code, without a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tune, store_study
from tests.study_samples import SPEC, study
from tuner.cli import options
from tuner.model import BASELINE
from tuner.results.study_view import StudyView


def ending(monkeypatch: pytest.MonkeyPatch, data: StudyView) -> None:
    """Let ``tune run`` come to this result at once."""
    monkeypatch.setattr(options, "spec_of", lambda *_: SPEC)
    monkeypatch.setattr("tuner.study.loop.tune", lambda *_, **__: data.result)


def test_nothing_measured_is_an_error_with_its_line(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = study({BASELINE: None})
    path = store_study(tmp_path / "x.db", data)
    ending(monkeypatch, data)
    done = tune("-q", "--storage", str(path))
    assert done.code == 3
    assert "Study mnist" in done.out
    assert done.err.count("tune: error: ") == 1
    assert "  next: " in done.err


def test_the_next_commands_name_a_database_that_was_typed_only(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    ending(monkeypatch, study())
    typed = tune("-q", "--storage", str(database))
    assert (typed.code, typed.err) == (0, "")
    assert f"tune show mnist --storage '{database}'" in typed.out
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert "--storage" not in tune("-q").out
