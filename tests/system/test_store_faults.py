"""Databases and folders that cannot be used, as they really are."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.study_surface import SPEC, FakeRunner, nearly_flat
from tuner.model import LaunchRecord
from tuner.model.errors import TunerError, UsageError
from tuner.store import Store, Summary
from tuner.study import result, tune

pytestmark = [pytest.mark.system, pytest.mark.slow]

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach (pytest's own are for their owner only)."""
    path = Path(tempfile.mkdtemp(prefix="tune faults "))
    path.chmod(0o777)
    yield path
    for inner in (path, *path.rglob("*")):
        if inner.is_dir():
            inner.chmod(0o777)
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def lock_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(folder / "lock"))


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


@pytest.fixture
def studied(folder: Path) -> Path:
    """A database with a finished study, its owner an ordinary user."""
    tune(SPEC, storage=str(folder / "tune.db"), run=FakeRunner())
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    return folder / "tune.db"


def test_a_read_only_file_can_be_shown_but_not_continued(studied: Path) -> None:
    studied.chmod(0o444)
    with as_ordinary_user():
        with Store.open(f"sqlite:///{studied}", create=False) as store:
            assert result(store, SPEC.name).trials == 6
        with pytest.raises(UsageError, match="read-only") as caught:
            tune(SPEC, storage=str(studied), run=FakeRunner(), fresh=True)
    assert "--storage" in caught.value.hint


def test_no_permission_for_a_folder_is_found_before_the_first_launch(folder: Path) -> None:
    locked, runner = folder / "locked", FakeRunner()
    locked.mkdir(mode=0o555)
    with as_ordinary_user():
        with pytest.raises(UsageError, match="Permission denied"):
            Store.open(f"sqlite:///{locked / 'deep' / 'x.db'}", create=True)
        with pytest.raises(UsageError, match="output folder") as caught:
            tune(SPEC, storage=str(folder / "tune.db"), outputs=locked, run=runner)
    assert "--run-dir" in caught.value.hint
    assert runner.settings == []


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b"PK\3\4" * 512])
def test_a_file_of_another_kind_is_left_alone(folder: Path, content: bytes) -> None:
    path = folder / "thesis.docx"
    path.write_bytes(content)
    for create in (True, False):
        with pytest.raises(UsageError, match="not an SQLite database"):
            Store.open(f"sqlite:///{path}", create=create)
    assert path.read_bytes() == content


def test_a_full_database_keeps_what_was_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own page limit gives the very error of a full disk."""
    path = folder / "tune.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        real_add = Store.add

        def add(self: Store, name: str, record: LaunchRecord, *rest: Summary | None) -> int:
            if record.number == 5:
                self._engine.dispose()  # the limit holds for new connections
                event.listen(self._engine, "connect", _no_more_pages)
                record = replace(record, argv=("x" * 100_000,))
            return real_add(self, name, record, *rest)

        monkeypatch.setattr(Store, "add", add)
        with pytest.raises(TunerError, match="disk is full") as caught:
            tune(SPEC, storage=str(path), run=FakeRunner(nearly_flat))
        assert "Launch 5 is kept in " in caught.value.hint
        monkeypatch.undo()
        assert [record.number for record in store.launches(SPEC.name)] == [1, 2, 3, 4]
    monkeypatch.setenv("TUNE_LOCK_DIR", str(folder / "lock"))
    runner = FakeRunner(nearly_flat)
    assert tune(SPEC, storage=str(path), run=runner).trials == 6
    with Store.open(f"sqlite:///{path}", create=False) as store:
        made = store.launches(SPEC.name)
    assert [record.number for record in made] == list(range(1, 6 + len(runner.settings)))
    assert made[4].argv[0] == made[3].argv[0], "as it was launched"


def _no_more_pages(connection: sqlite3.Connection, _: object) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


@contextmanager
def _read_only(path: Path) -> Iterator[None]:
    path.chmod(0o444)
    path.parent.chmod(0o555)
    yield
    path.parent.chmod(0o777)
    path.chmod(0o644)


def test_a_database_that_turns_read_only_ends_the_study_before_the_next_launch(
    studied: Path,
) -> None:
    """The launch that had just ended is kept in its own folder and taken up again."""
    outputs = studied.parent / "outputs"
    with ExitStack() as stack, as_ordinary_user():

        def before(count: int) -> None:
            if count == 3:
                stack.enter_context(_read_only(studied))

        runner = FakeRunner(nearly_flat, before=before)
        with pytest.raises(UsageError, match=r"read-only|cannot be opened") as caught:
            tune(SPEC, storage=str(studied), outputs=outputs, run=runner, fresh=True)
        assert len(runner.settings) == 4
        assert "Launch 4 is kept in " in caught.value.hint
    with as_ordinary_user():
        again = FakeRunner(nearly_flat)
        tune(SPEC, storage=str(studied), outputs=outputs, run=again)
        with Store.open(f"sqlite:///{studied}", create=False) as store:
            numbers = [record.number for record in store.launches(SPEC.name)]
    assert numbers == list(range(1, 5 + len(again.settings)))
