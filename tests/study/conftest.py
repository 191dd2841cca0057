"""A database of its own for each study, and a lock that no other study holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))


@pytest.fixture
def folders(tmp_path: Path, template: Path) -> Callable[[str], Path]:
    """Makes a folder of this name with such a database, ``tune.db``."""

    def made(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        shutil.copyfile(template, folder / "tune.db")
        return folder

    return made


@pytest.fixture
def folder(folders: Callable[[str], Path]) -> Path:
    return folders("study")
