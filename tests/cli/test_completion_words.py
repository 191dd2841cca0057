"""What completion answers, without a shell."""

from __future__ import annotations

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
        (("export", "--format", ""), list(SHIPPED)),
        (("--knob", "o"), [knob.name for knob in KNOBS if knob.name.startswith("o")]),
        (("knobs", "ompi_a"), ["ompi_allreduce"]),
        (("--launcher", "m"), ["mpich"]),
        (("--objective", "log"), ["logreport", "logreport:steady"]),
        (("--sampler", "t"), ["tune", "tpe"]),
    ],
)
def test_the_answers(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], answers: list[str]
) -> None:
    found = complete(tune, monkeypatch, *words)
    assert [line.partition(",")[2] for line in found] == answers


def test_studies(tune: Tune, monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert complete(tune, monkeypatch, "show", "") == ["plain,mnist"]
    assert complete(tune, monkeypatch, "export", "x") == []


def test_files_are_completed(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("--study", "--hostfile", "export -o", "init --"):
        assert complete(tune, monkeypatch, *words.split(), "my") == ["file,my"], words


def test_names_of_a_database_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database")
    for storage in (str(tmp_path / "x.db"), str(tmp_path), "postgresql://host/x"):
        assert study_names(storage, {}) == []
    assert study_names(None, {"TUNE_STORAGE": str(tmp_path / "none.db")}) == []
