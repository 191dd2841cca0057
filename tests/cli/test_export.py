"""``tune export`` and ``tune report``: formats, files and what is refused."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tests import study_samples as samples
from tests.cli.conftest import Tune


def export(tune: Tune, database: Path, *args: str) -> tuple[int, str, str]:
    return tune("export", "--storage", str(database), *args)


@pytest.mark.parametrize("words", [("export", "--format", "csv"), ("report",)])
def test_no_database_is_written_over(tune: Tune, database: Path, words: tuple[str, ...]) -> None:
    link = database.with_name("link.html")
    link.symlink_to(database)
    before = database.read_bytes()
    for name in (database, link, f"{database}-wal", f"{database}-journal"):
        code, _, err = tune(*words, "--storage", str(database), "-o", str(name))
        assert code == 2
        assert "it is a database, with all that was measured" in err
    assert database.read_bytes() == before


def test_a_new_file_is_for_its_owner_only_an_old_one_keeps_its_mode_and_links_stay(
    tune: Tune, database: Path, tmp_path: Path
) -> None:
    out, links = tmp_path / "out", [tmp_path / name for name in ("old.md", "new.md")]
    out.mkdir()
    for name in ("old.md", "old.sh"):
        (out / name).write_text("old")
        (out / name).chmod(0o640)
    for link in links:
        link.symlink_to(out / link.name)
    before = os.umask(0)
    try:
        for name in ("old.md", "new.md", "out/old.sh", "out/new.sh"):
            assert export(tune, database, "-o", name)[0] == 0
    finally:
        os.umask(before)
    assert all(link.is_symlink() for link in links)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()}
    scripts = {"old.sh": 0o750, "new.sh": 0o700}  # which can be executed
    assert modes == {"old.md": 0o640, "new.md": 0o600, **scripts}, "no draft stays"
    assert links[0].read_text() == links[1].read_text() != "old"


def test_a_pipe_and_a_device_stay(tune: Tune, database: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    code, _, _ = export(tune, database, "-o", "pipe", "--format", "args")
    text = os.read(reader, 1000)
    os.close(reader)
    assert (code, text) == (0, b"-j 1 --communicator naive\n")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    (tmp_path / "null").symlink_to("/dev/null")
    assert export(tune, database, "-o", "null")[0] == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode), "also for root"


def test_without_a_proven_gain_the_defaults_are_handed_over_with_the_reason(tune_on: Tune) -> None:
    code, out, err = tune_on(samples.no_gain(), "export")
    assert code == 0
    assert "OMP_NUM_THREADS=" not in out
    why = "no gain worth having: keep your defaults"
    assert why in err and "your defaults are handed over" in err


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_client_is_one_error_with_its_installation(
    tune: Tune, database: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    code, out, err = export(tune, database, "--format", name)
    assert (code, out) == (2, "")
    assert f"--format {name}: " in err
    assert f"next: pip install 'runtime-tuner[{name}]'\n" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-o", "."), "Is a directory"),
        (("-o", "no/such/folder.html"), "cannot write"),
        (("-o", "/sys/a.html"), "Permission denied"),  # not even root may write there
    ],
)
def test_what_cannot_be_done_is_one_error(
    tune: Tune, database: Path, args: tuple[str, ...], said: str
) -> None:
    code, out, err = tune("report", "--storage", str(database), *args)
    assert (code, out) == (2, "")
    assert said in err
