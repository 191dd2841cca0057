"""What is removed of a trial's folder, and what never is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.supervisor import litter


def test_all_that_is_ours_goes(tmp_path: Path) -> None:
    folder = tmp_path / "tune-1"
    assert litter.make_folder(str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "ompi.host.0" / "jf.1").mkdir(parents=True)
    (folder / "ompi.host.0" / "jf.1" / "file").write_text("x")
    os.mkfifo(folder / "pipe")
    (folder / "closed").mkdir()
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    litter.remove_folder(str(folder))
    assert not folder.exists()


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "tune-1"
    litter.make_folder(str(folder))
    (folder / "folder").symlink_to(outside)
    (folder / "file").symlink_to(outside / "kept")
    litter.remove_folder(str(folder))
    assert not folder.exists()
    assert (outside / "kept").exists()


def test_a_link_in_its_place_is_left(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "tune-1").symlink_to(outside)
    assert not litter.make_folder(str(tmp_path / "tune-1"))
    litter.remove_folder(str(tmp_path / "tune-1"))
    assert outside.is_dir()
    assert (tmp_path / "tune-1").is_symlink()


def test_somebody_elses_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tune-1"
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    litter.remove_folder(str(folder))
    assert folder.is_dir()


def test_a_mount_below_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tune-1"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "kept").touch()
    line = f"36 35 98:0 / {folder}/data rw - ext4 /dev/x rw\n".encode()
    monkeypatch.setattr(litter, "read", lambda _: line)
    litter.remove_folder(str(folder))
    assert (folder / "data" / "kept").exists()


def test_what_is_gone_is_no_error(tmp_path: Path) -> None:
    litter.remove_folder(str(tmp_path / "none"))
    assert not litter.make_folder(str(tmp_path / "none" / "below"))
