"""The journal: a launch that has ended has a file of its own, written before its trial is told.

Whatever fails after that, the file is enough to take the launch up again: the next start of the
command tells its trial. A launch costs minutes, its file a few milliseconds. Room for the file is
taken before the launch, so that a full disk shows then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.hosts.untrusted_files import make_folder, overwrite, read_untrusted, sync_names
from tuner.model import LaunchRecord, codec
from tuner.study.events import Event, Note

#: In a launch's folder once it has ended; complete or not there.
RECORD_FILE = "record.json"

#: The record until it is complete: the room that was taken, then the text that is written so far.
PART_FILE = "record.json.part"

#: Room for the record of a launch with many ranks, bytes.
USUAL_BYTES = 1 << 16

#: A file with more bytes is no record.
MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class Entry:
    """A launch that ended, and the study that it belongs to."""

    study: str
    created_at: str  # of the study: another one of the same name began at another time
    record: LaunchRecord


def parse(content: bytes) -> Entry:
    """Return the entry that :meth:`Journal.write` wrote; a ``ValueError`` if it is none, or cut."""
    try:
        return codec.loads(Entry, content.decode("ascii"))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of a launch: {error!r}") from error


@dataclass(frozen=True)
class Journal:
    """The records of one study, in the folders of its launches below ``folder``."""

    folder: Path
    study: str
    created_at: str

    def reserve(self, launch: Path) -> None:
        """Make the launch's folder and take the room for its record, or raise an ``OSError``."""
        make_folder(launch)
        try:
            # Without fsync: a full disk says so as it is written, or as it is closed.
            with os.fdopen(overwrite(launch / PART_FILE), "wb") as file:
                file.write(os.urandom(USUAL_BYTES))  # zeros take no room if compressed
        except OSError:
            shutil.rmtree(launch, ignore_errors=True)
            raise

    def write(self, record: LaunchRecord) -> None:
        """Put the record of a launch on the disk; all of it is there or nothing (``OSError``).

        It is without the telemetry, which would not fit into the room.
        """
        launch = Path(record.folder)
        light = replace(record, outcome=replace(record.outcome, telemetry=None))
        text = codec.dumps(Entry(self.study, self.created_at, light)) + "\n"
        with os.fdopen(overwrite(launch / PART_FILE), "wb") as file:  # in the room that is taken
            file.write(text.encode())
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        (launch / PART_FILE).rename(launch / RECORD_FILE)
        for folder in (launch, launch.parent):
            sync_names(folder)

    def missing(
        self, stored: Sequence[LaunchRecord], emit: Callable[[Event], None]
    ) -> list[LaunchRecord]:
        """Return the launches of this study that ended, but are not stored, in their order.

        A launch is known by the moment it started at and its folder's name: both of a pair start in
        one moment. Its number is the next free one: its own may have been given away since, if the
        database was an older copy for a while.
        """
        folders, starts = {r.folder for r in stored}, set(map(_start, stored))
        last = max((record.number for record in stored), default=0)
        missing: dict[tuple[str, str], LaunchRecord] = {}
        for path in sorted(self.folder.glob(f"*/{RECORD_FILE}")):
            if str(path.parent) in folders:
                continue
            try:
                entry = parse(read_untrusted(path, MOST_BYTES))
            except (OSError, ValueError):
                emit(Note(f"{path} is not a record of a launch: it is left as it is"))
                continue
            is_ours = (entry.study, entry.created_at) == (self.study, self.created_at)
            if is_ours and _start(entry.record) not in starts:
                record = replace(entry.record, folder=str(path.parent))
                missing[_start(entry.record)] = record
        records = [replace(missing[m], number=n) for n, m in enumerate(sorted(missing), last + 1)]
        for record in records:
            file = Path(record.folder) / RECORD_FILE
            emit(Note(f"launch {record.number} was kept in {file}: the database has it now"))
        return records


def _start(record: LaunchRecord) -> tuple[str, str]:
    """Return what tells a launch from all others of its study: when it began, and where."""
    return record.started_at, Path(record.folder).name
