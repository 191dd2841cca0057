"""What completion answers, without a shell."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.cli.conftest import Tune
from tuner.cli.app import COMMANDS
from tuner.knobs import KNOBS
from tuner.store.urls import study_names as names


def complete(tune: Tune, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The answers for ``tune words…`` with the cursor in the last one."""
    monkeypatch.setenv("_TUNE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("tune", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    done = tune()
    assert (done.code, done.err) == (0, "")
    return [line.partition(",")[2] for line in done.out.splitlines() if line]


def test_the_first_word_is_a_command(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(tune, monkeypatch, "") == list(COMMANDS)
    assert complete(tune, monkeypatch, "s") == ["show", "studies"]


def test_or_an_option_of_run(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(tune, monkeypatch, "--trial") == ["--trials", "--trial-limit"]
    assert complete(tune, monkeypatch, "--trials", "5", "--mpi") == [
        "--mpi-procs",
        "--mpirun",
        "--mpirun-arg",
    ]
    assert "--version" in complete(tune, monkeypatch, "--v")


def test_options_of_a_command(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(tune, monkeypatch, "export", "--f") == ["--format"]
    assert complete(tune, monkeypatch, "export", "--format", "") == [
        "sh",
        "env",
        "json",
        "args",
        "csv",
        "md",
    ]


def test_formats_of_other_packages_are_completed(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = EntryPoint("yaml", "their.package:export", "tuner.exporters")
    monkeypatch.setattr("tuner.model.plugins.entry_points", lambda **_: [theirs])
    assert complete(tune, monkeypatch, "export", "--format", "y") == ["yaml"]


def test_knobs(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    found = complete(tune, monkeypatch, "--knob", "o")
    assert found == [f"{knob.name}=" for knob in KNOBS if knob.name.startswith("o")]


def test_what_stands_behind_some_options(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, found in (
        (("knobs", "ompi_a"), ["ompi_allreduce"]),
        (("knobs", "--launcher", "t"), ["torchrun"]),
        (("--launcher", "m"), ["mpich"]),
        (("--objective", "log"), ["logreport", "logreport:steady"]),
        (("--live", ""), ["auto", "on", "off"]),
    ):
        assert complete(tune, monkeypatch, *words) == found


def test_studies(tune: Tune, monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    assert complete(tune, monkeypatch, "show", "") == []
    monkeypatch.setenv("TUNE_STORAGE", str(database))
    assert complete(tune, monkeypatch, "show", "") == ["mnist"]
    assert complete(tune, monkeypatch, "export", "x") == []


def test_behind_the_dashes_stand_files(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TUNE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "tune -n 2 -- pyth")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert tune().out == "file,pyth\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_tune(tune: Tune, shell: str) -> None:
    done = tune("completion", shell)
    assert done.code == 0
    assert "_TUNE_COMPLETE" in done.out


def test_names_of_a_database_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database")
    assert names(str(tmp_path / "x.db"), {}) == []
    assert names(str(tmp_path), {}) == []
    assert names("postgresql://host/x", {}) == []
    assert names(None, {"TUNE_STORAGE": str(tmp_path / "none.db")}) == []
