"""``tune init`` writes a study file that is valid as it stands, and overwrites nothing."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Tune
from tuner.config import study_file


def test_a_file_that_exists_is_kept_unless_it_is_forced(tune: Tune, tmp_path: Path) -> None:
    theirs = tmp_path / "my.toml"
    theirs.write_text("theirs")
    done = tune("init", "my.toml")
    assert done.code == 2
    assert "my.toml exists already" in done.err
    assert "--force" in done.err
    assert theirs.read_text() == "theirs"
    assert "tune --study my.toml" in tune("init", "my.toml", "--force").err
    study_file.load(theirs)


def test_a_dash_is_stdout(tune: Tune, tmp_path: Path) -> None:
    done = tune("init", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out == study_file.template("tune")
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_a_command_is_taken_as_it_is(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('started')")
    done = tune("init", "--", "mpirun", "-n", "3", "{python}", "train.py", "--out", "{out}")
    assert (done.code, done.out) == (0, "")
    assert "next: tune --dry-run, then: tune" in done.err
    study = study_file.study_of(study_file.load(tmp_path / "tune.toml"))
    assert study.command == ("{python}", "train.py", "--out", "{out}")
    assert (study.option("mpi_procs"), study.objective.kind) == (3, "logreport")
