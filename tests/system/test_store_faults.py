"""Databases and folders that cannot be used, as they really are; more in `tests/faults/rows.py`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.study_surface import SPEC, FakeRunner
from tuner.model.errors import UsageError
from tuner.results import study_view
from tuner.store.store import Store
from tuner.study.tuning import tune

pytestmark = [pytest.mark.system, pytest.mark.slow]

NOBODY = 65534


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that an ordinary user can reach: pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="tune faults ") as name:
        monkeypatch.setenv("TUNE_LOCK_DIR", f"{name}/lock")
        yield Path(name)


@contextmanager
def as_ordinary_user(folder: Path) -> Iterator[None]:
    """The owner of the folder and of what is in it; root may write everywhere."""
    is_root = os.geteuid() == 0
    if is_root:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_read_only_file_can_be_shown_but_not_continued(folder: Path) -> None:
    database = folder / "tune.db"
    tune(SPEC, storage=str(database), run=FakeRunner())
    database.chmod(0o444)
    with as_ordinary_user(folder):
        with Store.open(f"sqlite:///{database}", create=False) as store:
            assert study_view.load(store, SPEC.name).result.trials == 6
        with pytest.raises(UsageError, match="read-only") as caught:
            tune(SPEC, storage=str(database), run=FakeRunner(), fresh=True)
    assert "--storage" in caught.value.hint


def test_no_permission_for_a_folder_is_found_before_the_first_launch(folder: Path) -> None:
    locked, runner = folder / "locked", FakeRunner()
    locked.mkdir(mode=0o555)
    with as_ordinary_user(folder):
        with pytest.raises(UsageError, match="Permission denied"):
            Store.open(f"sqlite:///{locked / 'deep' / 'x.db'}", create=True)
        with pytest.raises(UsageError, match="output folder") as caught:
            tune(SPEC, storage=str(folder / "tune.db"), outputs=locked, run=runner)
    assert "--run-dir" in caught.value.hint
    assert runner.settings == []


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b"PK\3\4" * 512])
def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "thesis.docx"
    path.write_bytes(content)
    for create in (True, False):
        with pytest.raises(UsageError, match="not an SQLite database"):
            Store.open(f"sqlite:///{path}", create=create)
    assert path.read_bytes() == content
