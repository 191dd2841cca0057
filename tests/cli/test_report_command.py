"""``tune report``: where the page goes, and what is refused."""

from __future__ import annotations

import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests import study_samples as samples
from tests.cli.conftest import Tune, store_study


def test_the_page_is_written_whole_for_its_owner_only(
    tune: Tune, database: Path, tmp_path: Path
) -> None:
    code, out, err = tune("report", "--storage", str(database))
    assert (code, out) == (0, "")
    assert err.startswith("wrote report.html (4.")
    assert "MB, study mnist)" in err
    path = tmp_path / "report.html"
    assert path.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_dash_is_stdout(tune: Tune, database: Path, tmp_path: Path) -> None:
    code, out, err = tune("report", "mnist", "--storage", str(database), "-o", "-")
    assert (code, err) == (0, "")
    assert out.endswith("</html>\n")
    assert not (tmp_path / "-").exists()


def test_the_browser_is_opened_with_the_file(
    tune: Tune, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Mock(return_value=0)
    monkeypatch.setattr("click.launch", launch)
    assert tune("report", "--storage", str(database), "-o", "a b.html", "--open").code == 0
    launch.assert_called_once_with((tmp_path / "a b.html").as_uri())
    launch.return_value = 1
    assert "no browser could be started" in tune("report", "--storage", str(database), "--open").err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-o", "-", "--open"), "--open needs a file"),
        (("-o", "."), "it is a folder"),
        (("-o", "no/such/folder.html"), "cannot write"),
        (("nobody",), "nobody"),
    ],
)
def test_what_cannot_be_done_is_one_error(
    tune: Tune, database: Path, args: tuple[str, ...], said: str
) -> None:
    code, out, err = tune("report", "--storage", str(database), *args)
    assert (code, out) == (2, "")
    assert said in err


def test_the_commands_of_the_page_hold_in_every_folder(tune: Tune, tmp_path: Path) -> None:
    store_study(tmp_path / "x.db", samples.study())
    page = tune("report", "--storage", "x.db", "-o", "-").out
    assert page.count(f"--storage {tmp_path / 'x.db'} ") == 2
    assert f"tune show mnist --storage {tmp_path / 'x.db'}</code>" in page
    assert "--storage x.db" not in page
