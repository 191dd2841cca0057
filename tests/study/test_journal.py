"""The record of a launch in its own folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import BEST, CRASH, ran, record
from tuner.model import Ending, Exclusion, ExclusionKind, LaunchRecord, Load, Purpose, Stopped
from tuner.study import journal
from tuner.study.journal import PART_FILE, RECORD_FILE, Journal

CREATED = "2026-01-02T03:04:05.000006+00:00"
ODD = replace(CRASH, reason="\ud800\0\n$(x)", log_tail="ü" * 20)


def of(folder: Path, created_at: str = CREATED) -> Journal:
    return Journal(folder, "surface", created_at)


def launch(folder: Path, number: int = 1, ending: float | Ending = 1.0) -> LaunchRecord:
    made = record(number, BEST, Purpose.GUESS, ran(ending))
    return replace(made, folder=str(folder / f"{number:04d}"), started_at=f"2026-{number}")


def written(folder: Path, number: int = 1, created_at: str = CREATED) -> LaunchRecord:
    made = launch(folder, number)
    of(folder).reserve(Path(made.folder))
    of(folder, created_at).write(made)
    return made


def missing(folder: Path, *kept: LaunchRecord) -> list[LaunchRecord]:
    return of(folder).missing(kept, lambda _: None)


@pytest.mark.parametrize("ending", [2.5, Stopped(1.0, 3.0, 2.5, None, 0.12, "drift"), CRASH, ODD])
def test_what_was_kept_is_read_again(tmp_path: Path, ending: float | Ending) -> None:
    made = launch(tmp_path, ending=ending)
    exclusion = Exclusion(ExclusionKind.OTHER_HOST, "a neighbour")
    outcome = replace(made.outcome, load=Load(0.5, "pid 1 (x)"), exclusion=exclusion)
    made = replace(made, outcome=outcome)
    of(tmp_path).reserve(Path(made.folder))
    of(tmp_path).write(made)
    assert missing(tmp_path) == [made]


@given(st.binary(max_size=200))
def test_anything_else_is_no_record(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        journal.parse(content)


def test_room_is_taken_before_and_used_after(tmp_path: Path) -> None:
    made = launch(tmp_path / "surface")
    folder = Path(made.folder)
    of(tmp_path).reserve(folder)
    part = folder / PART_FILE
    assert part.stat().st_size >= journal.USUAL_BYTES
    assert folder.stat().st_mode & 0o777 == 0o700
    inode = part.stat().st_ino
    of(tmp_path).write(made)
    assert [path.name for path in folder.iterdir()] == [RECORD_FILE]
    assert (folder / RECORD_FILE).stat().st_ino == inode, "no further room was needed"
    assert (folder / RECORD_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["fifo", "of another"])
def test_what_a_program_puts_in_the_place_of_its_record_is_replaced(
    tmp_path: Path, how: str
) -> None:
    made = launch(tmp_path)
    of(tmp_path).reserve(Path(made.folder))
    part, other = Path(made.folder) / PART_FILE, tmp_path / "other"
    part.unlink()
    other.write_text("of somebody else")
    if how == "fifo":
        os.mkfifo(part)
    else:
        part.symlink_to(other)
    of(tmp_path).write(made)
    assert missing(tmp_path) == [made]
    assert other.read_text() == "of somebody else"


def test_a_full_disk_is_found_before_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "overwrite", lambda _: os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match="No space"):
        of(tmp_path).reserve(tmp_path / "0001")
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_lasts_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of(tmp_path).reserve(tmp_path / "0001")
    steps: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        real_sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        steps.append(f"rename {self.name}")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    of(tmp_path).write(launch(tmp_path))
    folders = ["sync 0001", f"sync {tmp_path.name}"]
    assert steps == [f"sync {PART_FILE}", f"rename {PART_FILE}", *folders]


def test_only_launches_of_the_very_study_that_are_not_kept_are_missing(tmp_path: Path) -> None:
    first, third = written(tmp_path, 1), written(tmp_path, 3)
    written(tmp_path, 2, created_at="2025-01-01T00:00:00.000000+00:00")
    assert Journal(tmp_path, "other", CREATED).missing((), lambda _: None) == []
    # An older copy of the database was used for a while: the number 3 was given away.
    other = replace(first, number=3, folder="/elsewhere", started_at="2025")
    numbers = [(found.number, found.folder) for found in missing(tmp_path, first, other)]
    assert numbers == [(4, third.folder)]
    tmp_path.joinpath("0001").rename(tmp_path / "moved")
    assert missing(tmp_path, third)[0].folder == str(tmp_path / "moved")
