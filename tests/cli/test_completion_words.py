"""What completion answers, without a shell."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.cli.conftest import Tune
from tuner.cli.app import COMMANDS
from tuner.knobs import KNOBS
from tuner.results.exporters import SHIPPED
from tuner.store.urls import study_names


def complete(tune: Tune, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The answers for ``tune words…`` with the cursor in the last one."""
    monkeypatch.setenv("_TUNE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("tune", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    done = tune()
    assert (done.code, done.err) == (0, "")
    return [line for line in done.out.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (("",), list(COMMANDS)),
        (("s",), ["show", "studies", "scale"]),
        (("--trial",), ["--trials", "--trial-limit"]),
        (("--trials", "5", "--mpi"), ["--mpi-procs", "--mpirun", "--mpirun-arg"]),
        (("--v",), ["--version"]),
        (("export", "--f"), ["--format"]),
        (
            ("export", "--format", ""),
            list(SHIPPED),
        ),
        (("--knob", "o"), [f"{knob.name}=" for knob in KNOBS if knob.name.startswith("o")]),
        (("knobs", "ompi_a"), ["ompi_allreduce"]),
        (("knobs", "--launcher", "t"), ["torchrun"]),
        (("--launcher", "m"), ["mpich"]),
        (("--objective", "log"), ["logreport", "logreport:steady"]),
        (("--live", ""), ["auto", "on", "off"]),
        (("show", ""), []),
        (("--sampler", "t"), ["tune", "tpe"]),
    ],
)
def test_the_answers(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], answers: list[str]
) -> None:
    found = complete(tune, monkeypatch, *words)
    assert [line.partition(",")[2] for line in found] == answers


def test_formats_of_other_packages_are_completed(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = EntryPoint("yaml", "their.package:export", "tuner.exporters")
    monkeypatch.setattr("tuner.model.plugins.entry_points", lambda **_: [theirs])
    assert complete(tune, monkeypatch, "export", "--format", "y") == ["plain,yaml"]


def test_studies(tune: Tune, monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert complete(tune, monkeypatch, "show", "") == ["plain,mnist"]
    assert complete(tune, monkeypatch, "export", "x") == []


def test_after_the_dashes_come_files(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(tune, monkeypatch, "-n", "2", "--", "pyth") == ["file,pyth"]


@pytest.mark.parametrize(
    "words",
    [
        ("--study", "my"),
        ("--on-finish", "my"),
        ("compare", "my"),
        ("compare", "mnist", "my"),
        ("--hostfile", "my"),
        ("--storage", "my"),
        ("export", "-o", "my"),
        ("init", "my"),
        ("init", "--", "my"),
    ],
)
def test_files_are_completed(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    assert complete(tune, monkeypatch, *words) == ["file,my"]


def test_an_unknown_shell_is_one_error(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    monkeypatch.setenv("_TUNE_COMPLETE", "tcsh_complete")
    done = tune()
    assert (done.code, done.err.count("tune: error:")) == (2, 1)
    assert "tcsh_complete" in done.err


def test_names_of_a_database_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database")
    for storage in (str(tmp_path / "x.db"), str(tmp_path), "postgresql://host/x"):
        assert study_names(storage, {}) == []
    assert study_names(None, {"TUNE_STORAGE": str(tmp_path / "none.db")}) == []
