"""The log that LogReport writes: Chainer's, and pytorch-pfn-extras' in each of its formats.

A log is a sequence of entries, each with ``iteration`` and ``elapsed_time`` (s, since the
trainer began). Chainer writes a JSON list; pytorch-pfn-extras a JSON list, JSON lines or YAML.
Both replace the file at each report, and the latter removes the old one a moment before.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner import pace, plausible
from tuner.errors import shown
from tuner.model import CLOCK, Failed, FailureKind, Finished, JsonDict, ObjectiveSpec, Progress
from tuner.objectives.asked import MOST, EndedLaunch, remove_old
from tuner.objectives.formats import BadLogError, parse
from tuner.wording import one_line

#: What losses are called, the most common first.
LOSSES = ("main/loss", "validation/main/loss", "loss", "train/loss")

#: The names under which the default log may be found: a format may have its own suffix.
SUFFIXES = ("", ".json", ".jsonl", ".yaml", ".yml")

#: A file that is being replaced is there again at once: read so often, so far apart (s).
READS = 4
PAUSE_S = 0.025

#: No LogReport comes near this size, bytes.
MOST_BYTES = 64 << 20

#: Iterations that a database holds and a float tells apart.
MOST_ITERATIONS = 2**53

#: So many of a log's keys are listed where the one asked for is not among them.
MOST_KEYS = 20
LONGEST_KEY = 60


def check(entries: Sequence[JsonDict], key: str = CLOCK) -> tuple[list[Progress], float]:
    """The progress that the entries tell, and the last value of `key`.

    Raises:
        BadLogError: Something is missing, is no sensible number, or runs backwards.
    """
    progress: list[Progress] = []
    value: float | None = None
    for number, entry in enumerate(entries, start=1):
        step = _progress(entry, f"entry {number}")
        if progress:
            _check_order(progress[-1], step, f"entry {number}")
        progress.append(step)
        if key in entry:
            value = _number(entry, key, f"entry {number}")
    if value is None:
        raise BadLogError(f"has no {key} in any entry; its keys are {_keys(entries)}")
    if value == 0:
        raise BadLogError(f"ends with {key} = 0: nothing was measured")
    return progress, value


def _keys(entries: Sequence[JsonDict]) -> str:
    keys = list(dict.fromkeys(key for entry in entries for key in entry))
    more = " …" if len(keys) > MOST_KEYS else ""
    return ", ".join(one_line(str(key), LONGEST_KEY) for key in keys[:MOST_KEYS]) + more


def steady_s(progress: Sequence[Progress]) -> float:
    """Seconds an iteration once the program has warmed up (:func:`tuner.pace.steady_s`).

    Raises:
        BadLogError: The log does not tell.
    """
    found = pace.steady_s([(step.iteration, step.elapsed_s) for step in progress])
    if found is None:
        share = f"the first {pace.WARM_UP_SHARE:.0%} of its {progress[-1].iteration} iterations"
        raise BadLogError(
            f"has no steady state: no two entries with time between them behind {share}"
        )
    return found


def epochs(entries: Sequence[JsonDict]) -> float | None:
    """How many epochs the training did, where the log tells exactly; else ``None``.

    ``epoch_detail`` of the last entry; or its ``epoch``, a count of whole ones, where the log
    has an entry for each.
    """
    try:
        detail = _number(entries[-1], "epoch_detail", "the last entry")
    except BadLogError:
        detail = 0.0
    if detail > 0:
        return detail
    counts = [entry.get("epoch") for entry in entries]
    return float(len(counts)) if counts == list(range(1, len(counts) + 1)) else None


def final_loss(entries: Sequence[JsonDict], key: str = "") -> float | None:
    """The last value of `key`; without one, of the first usual key that the last entry has."""
    if key:
        return next(
            (plausible.finite(each[key]) for each in reversed(entries) if key in each), None
        )
    found = (plausible.finite(entries[-1].get(usual)) for usual in LOSSES)
    return next((loss for loss in found if loss is not None), None)


def _progress(entry: JsonDict, where: str) -> Progress:
    iteration = entry.get("iteration")
    if type(iteration) is not int or not 0 <= iteration <= MOST_ITERATIONS:
        found = f"iteration {shown(iteration)}" if "iteration" in entry else "no iteration"
        raise BadLogError(f"has {found} in {where}")
    return Progress(iteration, _number(entry, CLOCK, where))


def _number(entry: JsonDict, key: str, where: str) -> float:
    if key not in entry:
        raise BadLogError(f"has no {key} in {where}")
    value = entry[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLogError(f"has {key} {shown(value)} in {where}, which is not a number")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if value != 0 and not 1 / MOST <= value <= MOST:
        raise BadLogError(f"has {key} {value} in {where}")
    return value


def _check_order(before: Progress, after: Progress, where: str) -> None:
    if after.elapsed_s < before.elapsed_s:
        clock = f"from {before.elapsed_s} to {after.elapsed_s}"
        raise BadLogError(f"has a clock that goes backwards: {CLOCK} {clock} in {where}")
    if after.iteration < before.iteration:
        step = f"from {before.iteration} to {after.iteration}"
        raise BadLogError(f"has iterations that go backwards: {step} in {where}")


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
            self._version, self._progress = version, _sound(entries)
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
        with open(version.path, "rb", opener=_without_waiting) as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BadLogError("is not a regular file")
            if found.st_size > MOST_BYTES:
                raise BadLogError(f"is not a LogReport: {found.st_size} bytes is too large")
            return stream.read(MOST_BYTES)


def _without_waiting(path: str, flags: int) -> int:
    """Whatever has taken its place meanwhile: a pipe would block for ever, a device has no end."""
    return os.open(path, flags | os.O_NONBLOCK)


def _sound(entries: Sequence[JsonDict]) -> tuple[Progress, ...]:
    """The longest start of the log that holds up."""
    progress: list[Progress] = []
    for entry in entries:
        try:
            step = _progress(entry, "")
            if progress:
                _check_order(progress[-1], step, "")
        except BadLogError:
            break
        progress.append(step)
    return tuple(progress)
