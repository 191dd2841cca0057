"""A database of its own for each study."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


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
