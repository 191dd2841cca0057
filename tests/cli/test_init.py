"""``tune init`` writes a study file that is valid as it stands, and overwrites nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.cli.conftest import Tune
from tuner.config import study_file


def test_the_file_is_valid_and_has_comments(tune: Tune, tmp_path: Path) -> None:
    done = tune("init")
    assert done.code == 0
    assert "wrote tune.toml" in done.err
    text = (tmp_path / "tune.toml").read_text()
    tomllib.loads(text)
    study_file.load(tmp_path / "tune.toml")
    assert text.count("#") > 5


def test_a_file_that_exists_is_kept(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("mine")
    done = tune("init", "my.toml")
    assert done.code == 2
    assert "my.toml exists already" in done.err
    assert "--force" in done.err
    assert (tmp_path / "my.toml").read_text() == "mine"


def test_force_overwrites(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("mine")
    assert "tune --study my.toml" in tune("init", "my.toml", "--force").err
    assert (tmp_path / "my.toml").read_text() != "mine"


def test_a_link_stays(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text("theirs")
    (tmp_path / "my.toml").symlink_to("theirs.toml")
    assert tune("init", "my.toml", "--force").code == 0
    assert (tmp_path / "my.toml").is_symlink()
    assert (tmp_path / "theirs.toml").read_text() != "theirs"


def test_it_goes_to_stdout(tune: Tune, tmp_path: Path) -> None:
    done = tune("init", "-")
    assert (done.code, done.err) == (0, "")
    assert done.out == study_file.template("tune")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_one_error(tune: Tune) -> None:
    assert tune("init", "no/such.toml").code == 2
