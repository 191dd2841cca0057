"""The record of a launch in its own folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_surface import BEST, CRASH, ran, record
from tuner.model import (
    Ending,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Load,
    Purpose,
    Stopped,
)
from tuner.study import journal
from tuner.study.journal import PART_FILE, RECORD_FILE, Entry, Journal, lacking

CREATED = "2026-01-02T03:04:05.000006+00:00"
STOPPED = Stopped(1.0, 3.0, 2.5, None, 0.12, "drift")
ODD = Failed(FailureKind.CRASHED, "\ud800\0\n$(x)", "ü" * 20)


def entry(ending: float | Ending = 1.0, number: int = 1) -> Entry:
    made = record(number, BEST, Purpose.GUESS, ran(ending))
    return Entry("surface", CREATED, made)


def of(folder: Path, created_at: str = CREATED) -> Journal:
    return Journal(folder, "surface", created_at)


def written(folder: Path, number: int = 1, created_at: str = CREATED) -> LaunchRecord:
    """Keep a launch in a folder of its own."""
    launch = folder / f"{number:04d}"
    made = replace(entry(number=number).record, folder=str(launch), started_at=f"2026-{number}")
    of(folder).reserve(launch)
    of(folder, created_at).write(made)
    return made


@pytest.mark.parametrize("ending", [2.5, STOPPED, CRASH, ODD])
def test_what_was_kept_is_read_again(ending: float | Ending) -> None:
    made = entry(ending)
    outcome = replace(
        made.record.outcome,
        load=Load(0.5, "pid 1 (x)"),
        exclusion=Exclusion(ExclusionKind.OTHER_HOST, "a neighbour"),
    )
    made = replace(made, record=replace(made.record, outcome=outcome))
    assert journal.parse(journal.text(made).encode("ascii")) == made


@given(st.binary(max_size=200))
def test_anything_else_is_no_record(content: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        journal.parse(content)


def test_room_is_taken_before_and_used_after(tmp_path: Path) -> None:
    launch = tmp_path / "surface" / "0001"
    of(tmp_path).reserve(launch)
    part = launch / PART_FILE
    assert part.stat().st_size >= journal.USUAL_BYTES
    assert launch.stat().st_mode & 0o777 == 0o700
    inode = part.stat().st_ino
    of(tmp_path).write(replace(entry().record, folder=str(launch)))
    assert [path.name for path in launch.iterdir()] == [RECORD_FILE]
    assert (launch / RECORD_FILE).stat().st_ino == inode, "no further room was needed"
    assert (launch / RECORD_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["fifo", "endless", "of another", "folder"])
def test_what_a_program_puts_in_the_place_of_its_record_is_replaced(
    tmp_path: Path, how: str
) -> None:
    launch = tmp_path / "0001"
    of(tmp_path).reserve(launch)
    part, other = launch / PART_FILE, tmp_path / "other"
    part.unlink()
    other.write_text("of somebody else")
    if how == "fifo":
        os.mkfifo(part)
    elif how == "folder":
        part.mkdir()
    else:
        part.symlink_to("/dev/zero" if how == "endless" else other)
    record = replace(entry().record, folder=str(launch))
    if how == "folder":
        with pytest.raises(OSError, match=r"record\.json"):
            of(tmp_path).write(record)
        return
    of(tmp_path).write(record)
    assert [found.number for found in of(tmp_path).read(())[0]] == [record.number]
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
    seen: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        seen.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        real_sync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        seen.append(f"rename {self.name} {target.name}")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    of(tmp_path).write(replace(entry().record, folder=str(tmp_path / "0001")))
    first = [
        f"sync {PART_FILE}",
        f"rename {PART_FILE} {RECORD_FILE}",
        "sync 0001",
        f"sync {tmp_path.name}",
    ]
    assert seen == first


def test_only_launches_of_the_very_study_are_found(tmp_path: Path) -> None:
    mine = written(tmp_path, 1)
    written(tmp_path, 2, created_at="2025-01-01T00:00:00.000000+00:00")
    written(tmp_path, 3)
    assert of(tmp_path).read({str(tmp_path / "0003")}) == ([mine], [])
    assert Journal(tmp_path, "other", CREATED).read(set()) == ([], [])


def test_what_is_no_record_is_named_and_left(tmp_path: Path) -> None:
    mine = written(tmp_path, 1)
    for name in ("half", "link", "pipe", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "half" / RECORD_FILE).write_bytes(
        (tmp_path / "0001" / RECORD_FILE).read_bytes()[:300]
    )
    (tmp_path / "link" / RECORD_FILE).symlink_to(tmp_path / "0001" / RECORD_FILE)
    os.mkfifo(tmp_path / "pipe" / RECORD_FILE)
    (tmp_path / "folder" / RECORD_FILE).mkdir()
    of(tmp_path).reserve(tmp_path / "reserved")
    found, damaged = of(tmp_path).read(set())
    assert found == [mine]
    assert [path.parent.name for path in damaged] == ["folder", "half", "link", "pipe"]
    assert (tmp_path / "half" / RECORD_FILE).stat().st_size == 300


def test_records_moved_with_their_folder_name_the_new_place(tmp_path: Path) -> None:
    written(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    ((found,), _) = of(tmp_path / "new").read(set())
    assert found.folder == str(tmp_path / "new" / "0001")


def launches(*moments: tuple[int, str]) -> list[LaunchRecord]:
    return [replace(entry(number=n).record, started_at=moment) for n, moment in moments]


def test_a_number_given_away_since_is_not_given_twice() -> None:
    """An older copy of the database was used for a while."""
    kept, found = launches((1, "a"), (2, "x")), launches((2, "b"), (3, "c"))
    assert lacking(kept, found) == launches((3, "b"), (4, "c"))
