"""Databases and folders that cannot be used, as they really are; more in `tests/faults/rows.py`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.study_surface import SPEC, FakeRunner
from tuner.model.errors import UsageError
from tuner.results import study_view
from tuner.store import Store
from tuner.study import tune

pytestmark = [pytest.mark.system, pytest.mark.slow]

NOBODY = 65534


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that an ordinary user can reach (pytest's own are for their owner only)."""
    path = Path(tempfile.mkdtemp(prefix="tune faults "))
    path.chmod(0o777)
    monkeypatch.setenv("TUNE_LOCK_DIR", str(path / "lock"))
    yield path
    for inner in (path, *path.rglob("*")):
        if inner.is_dir():
            inner.chmod(0o777)
    shutil.rmtree(path)


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Without root's right to write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_file_can_be_shown_but_not_continued(folder: Path) -> None:
    database = folder / "tune.db"
    tune(SPEC, storage=str(database), run=FakeRunner())
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    database.chmod(0o444)
    with as_ordinary_user():
        with Store.open(f"sqlite:///{database}", create=False) as store:
            assert study_view.load(store, SPEC.name).result.trials == 6
        with pytest.raises(UsageError, match="read-only") as caught:
            tune(SPEC, storage=str(database), run=FakeRunner(), fresh=True)
    assert "--storage" in caught.value.hint


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b"PK\3\4" * 512])
def test_a_file_of_another_kind_is_left_alone(folder: Path, content: bytes) -> None:
    path = folder / "thesis.docx"
    path.write_bytes(content)
    for create in (True, False):
        with pytest.raises(UsageError, match="not an SQLite database"):
            Store.open(f"sqlite:///{path}", create=create)
    assert path.read_bytes() == content
