"""The log that LogReport writes: Chainer's, and pytorch-pfn-extras' in each of its formats.

Chainer writes a JSON list; pytorch-pfn-extras a JSON list, JSON lines or YAML. Both replace the
file at each report, and the latter removes the old one a moment before. What the entries say is
read by :mod:`tuner.launch.objectives.entries`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts.untrusted_files import read_untrusted
from tuner.launch.objectives.entries import (
    BadLogError,
    check,
    epochs,
    final_loss,
    parse,
    sound,
    steady_s,
)
from tuner.launch.objectives.validation import EndedLaunch, remove_old
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec, Progress

#: The names under which the default log may be found: a format may have its own suffix.
SUFFIXES = ("", ".json", ".jsonl", ".yaml", ".yml")

#: A file that is being replaced is there again at once: read so often, so far apart (s).
READS = 4
PAUSE_S = 0.025

#: No LogReport of a short run comes near this size, bytes. Parsing takes ten times as much memory.
MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class _Version:
    """What tells one state of the file from another without reading it."""

    path: Path
    inode: int
    size: int
    changed_ns: int


class LogReport:
    """Reads the last ``elapsed_time`` (or another key), or the steady state, of one launch.

    Args:
        spec: The file's name below ``{out}`` and the key.
        sleep: Waits between two attempts at a file that is being replaced.
    """

    needs_out = True

    def __init__(self, spec: ObjectiveSpec, sleep: Callable[[float], None] = time.sleep) -> None:
        self._spec = spec
        self._sleep = sleep
        self._version: _Version | None = None
        self._progress: tuple[Progress, ...] = ()

    def names(self, out_dir: Path) -> tuple[Path, ...]:
        """Where the log may be: the given name, then with each suffix unless it has one."""
        path = out_dir / self._spec.log
        suffixes = ("",) if path.suffix in SUFFIXES[1:] else SUFFIXES
        return tuple(path.with_name(path.name + suffix) for suffix in suffixes)

    def prepare(self, out_dir: Path) -> None:
        """Remove an old log under each of its names; see `Objective`."""
        for path in self.names(out_dir):
            remove_old(path)

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:
        """The sound entries from the start of the log; the file is read when it has changed."""
        version = self._find(out_dir)
        if version is not None and version != self._version:
            try:
                entries = parse(self._read(version), version.path.suffix)
            except (BadLogError, OSError):
                return self._progress  # caught in mid-replacement: the next look will do
            self._version, self._progress = version, sound(entries)
        return self._progress

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """What the log says in the end; see `Objective`."""
        for attempt in range(READS):
            if attempt:
                self._sleep(PAUSE_S)
            ending = self._attempt(ended.out_dir)
            if isinstance(ending, Finished):
                break
        return ending

    def _attempt(self, out_dir: Path) -> Finished | Failed:
        path = self.names(out_dir)[0]
        try:
            version = self._find(out_dir)
            if version is None:
                reason = f"the program ended but wrote no log {path}"
                return Failed(FailureKind.NO_LOG, reason)
            path = version.path
            entries = parse(self._read(version), path.suffix)
            progress, value = check(entries, self._spec.key)
            if self._spec.statistic == "steady":
                value = steady_s(progress)
        except BadLogError as error:
            return Failed(FailureKind.BAD_LOG, f"the log {path} {error}")
        except OSError as error:
            return Failed(FailureKind.BAD_LOG, f"the log {path} cannot be read: {error.strerror}")
        loss = final_loss(entries, self._spec.loss_key)
        return Finished(self._spec.cost(value), progress[-1].iteration, epochs(entries), loss)

    def _find(self, out_dir: Path) -> _Version | None:
        for path in self.names(out_dir):
            try:
                found = path.stat()
            except OSError:
                continue
            return _Version(path, found.st_ino, found.st_size, found.st_mtime_ns)
        return None

    @staticmethod
    def _read(version: _Version) -> bytes:
        data = read_untrusted(version.path, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BadLogError(f"is not a LogReport: {version.size} bytes is too large")
        return data
