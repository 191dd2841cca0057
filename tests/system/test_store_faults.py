"""Databases that cannot be used, as they really are; more in `tests/faults/rows.py`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.study_surface import SPEC, FakeRunner
from tuner.model.errors import UsageError
from tuner.results import study_view
from tuner.store import Store
from tuner.study import tune

pytestmark = [pytest.mark.system, pytest.mark.slow]

NOBODY = 65534


def test_a_read_only_file_can_be_shown_but_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen by an ordinary user: root may write everywhere."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="tune faults ") as name:  # pytest's own are closed
        folder, database = Path(name), Path(name) / "tune.db"
        monkeypatch.setenv("TUNE_LOCK_DIR", str(folder / "lock"))
        tune(SPEC, storage=str(database), run=FakeRunner())
        database.chmod(0o444)
        if is_root:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            with Store.open(f"sqlite:///{database}", create=False) as store:
                assert study_view.load(store, SPEC.name).result.trials == 6
            with pytest.raises(UsageError, match="read-only") as caught:
                tune(SPEC, storage=str(database), run=FakeRunner(), fresh=True)
        finally:
            if is_root:
                os.seteuid(0)
    assert "--storage" in caught.value.hint


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b"PK\3\4" * 512])
def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "thesis.docx"
    path.write_bytes(content)
    for create in (True, False):
        with pytest.raises(UsageError, match="not an SQLite database"):
            Store.open(f"sqlite:///{path}", create=create)
    assert path.read_bytes() == content
