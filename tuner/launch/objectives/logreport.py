"""Reads the log of LogReport, Chainer's or pytorch-pfn-extras': a JSON list or JSON lines.

Both replace the file at each report; pytorch-pfn-extras removes the old one a moment before. Each
entry has an ``iteration`` and the ``elapsed_time`` (s, since the trainer began).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuner.hosts.untrusted_files import read_untrusted
from tuner.launch.objectives import MOST_FIGURE, EndedLaunch, Objective
from tuner.model import CLOCK, Failed, FailureKind, Finished, JsonDict, ObjectiveSpec, Progress
from tuner.model.errors import shown
from tuner.model.wording import one_line
from tuner.search import throughput
from tuner.stats import loss_check

#: What may follow the name of a log: a format may have its own suffix.
SUFFIXES = ("", ".json", ".jsonl")
#: No LogReport of a short run comes near this size, bytes. Parsing takes ten times as much memory.
MOST_BYTES = 16 << 20
#: What losses are called, the most common first.
LOSSES = ("main/loss", "validation/main/loss", "loss", "train/loss")
#: So many iterations fit into a database, and differ as floats.
MOST_ITERATIONS = 2**53
#: So many letters are shown of the keys of a log.
LONGEST_KEYS = 400


class BadLogError(Exception):
    """The log cannot be used; the message says why, without the file's name."""


class LogReport(Objective):
    """Reads the last ``elapsed_time`` (or another key), or the steady state, of one launch."""

    needs_out = True

    def __init__(self, spec: ObjectiveSpec) -> None:
        super().__init__(spec)
        self.leaves_out_pauses = spec.key == CLOCK
        self._version: tuple[object, ...] = ()
        self._progress: tuple[Progress, ...] = ()
        self._began_s = math.inf  # when the program's clock began, by `time.time`

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:
        """Return the sound entries from the start of the log, read again when it has changed."""
        with suppress(BadLogError, OSError):  # caught in mid-replacement: the next look will do
            path, stat = self._find(out_dir)
            version = (path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if version != self._version:
                log, entries = parse(_read(path)), []
                with suppress(BadLogError):  # the entries before a bad one stay
                    for entry in steps(log):
                        entries.append(entry)
                if entries:  # written some time after its clock was read: the least is the nearest
                    began_s = stat.st_mtime_ns / 1e9 - entries[-1].elapsed_s
                    self._began_s = min(self._began_s, began_s)
                self._version, self._progress = version, tuple(map(self._unpaused, entries))
        return self._progress

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        path = ended.out_dir / self.spec.log
        try:
            path, _ = self._find(ended.out_dir)
            return self._finished(parse(_read(path)))
        except FileNotFoundError:
            return Failed(FailureKind.NO_LOG, f"the program ended but wrote no log {path}")
        except BadLogError as error:
            return Failed(FailureKind.BAD_LOG, f"the log {path} {error}")
        except OSError as error:
            reason = f"the log {path} cannot be read: {error.strerror}"
            return Failed(FailureKind.BAD_LOG, reason)

    def _find(self, out_dir: Path) -> tuple[Path, os.stat_result]:
        """Return the log: the given name, or that with a suffix unless it has one."""
        path = out_dir / self.spec.log
        for suffix in ("",) if path.suffix in SUFFIXES[1:] else SUFFIXES:
            with suppress(OSError):
                candidate = path.with_name(path.name + suffix)
                return candidate, candidate.stat()
        raise FileNotFoundError

    def _unpaused(self, entry: Progress) -> Progress:
        """Return the entry with the time that the program has run, without its pauses."""
        return replace(entry, elapsed_s=self._running_s(entry.elapsed_s))

    def _running_s(self, elapsed_s: float) -> float:
        """Return how long the program had run when its clock said ``elapsed_s``."""
        end_s = self._began_s + elapsed_s
        overlaps_s = (min(end, end_s) - max(begin, self._began_s) for begin, end in self.pauses())
        return elapsed_s - sum(overlap_s for overlap_s in overlaps_s if overlap_s > 0)

    def _finished(self, entries: Sequence[JsonDict]) -> Finished:
        """Return the figure of a whole log, with its iterations, epochs and last loss."""
        progress = list(map(self._unpaused, steps(entries)))
        value = _last_value(entries, self.spec.key)
        if self.spec.key == CLOCK:
            value = self._running_s(value)
        if self.spec.statistic == "steady":
            steady_s = throughput.steady_s([(step.iteration, step.elapsed_s) for step in progress])
            if steady_s is None:
                raise BadLogError(
                    "has no steady state: no two entries with time between them after the first"
                    f" {throughput.WARM_UP_SHARE:.0%} of its {progress[-1].iteration} iterations"
                )
            value = steady_s
        loss = _final_loss(entries, self.spec.loss_key)
        return Finished(self.spec.cost(value), progress[-1].iteration, _epochs(entries), loss)


def _read(path: Path) -> bytes:
    data = read_untrusted(path, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadLogError(f"is not a LogReport: more than {MOST_BYTES} bytes is too large")
    return data


def parse(data: bytes) -> list[JsonDict]:
    """Return the entries of a log, which is a JSON list or a JSON object a line.

    ``BadLogError``: it is empty, truncated, or not a log at all.
    """
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadLogError(f"is not text (byte {error.start} is not UTF-8)") from None
    if not text:
        raise BadLogError("is empty")
    try:
        if text.startswith("{"):
            entries = [json.loads(line) for line in text.split("\n") if line.strip()]
        else:
            entries = json.loads(text)
    except RecursionError:
        raise BadLogError("is not a LogReport: it is nested too deeply") from None
    except ValueError as error:
        raise BadLogError(f"is truncated or not a LogReport: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadLogError("is not a LogReport: it is not a list of entries")
    if not entries:
        raise BadLogError("has no entries")
    return entries


def steps(entries: Sequence[JsonDict]) -> Iterator[Progress]:
    """Yield the progress in the entries, one by one.

    ``BadLogError``: something is missing, is no sensible number, or runs backwards.
    """
    before = Progress(0, 0.0)
    for number, entry in enumerate(entries, start=1):
        iteration = entry.get("iteration")
        if type(iteration) is not int or not 0 <= iteration <= MOST_ITERATIONS:
            text = f"iteration {shown(iteration)}" if "iteration" in entry else "no iteration"
            raise BadLogError(f"has {text} in entry {number}")
        step = Progress(iteration, _number(entry, CLOCK, f"entry {number}"))
        if number > 1 and (step.elapsed_s < before.elapsed_s or step.iteration < before.iteration):
            raise BadLogError(
                f"goes backwards in entry {number}: from iteration {before.iteration} at"
                f" {before.elapsed_s} s to {step.iteration} at {step.elapsed_s} s"
            )
        yield step
        before = step


def _last_value(entries: Sequence[JsonDict], key: str) -> float:
    numbers = [_number(e, key, f"entry {n}") for n, e in enumerate(entries, start=1) if key in e]
    if not numbers:
        keys = ", ".join(dict.fromkeys(str(key) for entry in entries for key in entry))
        raise BadLogError(f"has no {key} in any entry; its keys are {one_line(keys, LONGEST_KEYS)}")
    if numbers[-1] == 0:
        raise BadLogError(f"ends with {key} = 0: nothing was measured")
    return numbers[-1]


def _epochs(entries: Sequence[JsonDict]) -> float | None:
    """Return how many epochs the training did, if the log says so exactly; else ``None``."""
    with suppress(BadLogError):
        epochs = _number(entries[-1], "epoch_detail", "the last entry")
        if epochs > 0:
            return epochs
    # With an entry an epoch the last one was written at the end of its epoch.
    numbers = [entry.get("epoch") for entry in entries]
    return float(len(numbers)) if numbers == list(range(1, len(numbers) + 1)) else None


def _final_loss(entries: Sequence[JsonDict], key: str) -> float | None:
    """Return the last value of a key; without a key, the first usual loss in the last entry."""
    if key:
        entries = [entry for entry in entries if key in entry] or [{}]
    losses = (loss_check.finite(entries[-1].get(name)) for name in ((key,) if key else LOSSES))
    return next((loss for loss in losses if loss is not None), None)


def _number(entry: JsonDict, key: str, where: str) -> float:
    """Return an entry's number under a key; ``where`` names the entry in a message."""
    if key not in entry:
        raise BadLogError(f"has no {key} in {where}")
    value = entry[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLogError(f"has {key} {shown(value)} in {where}, which is not a number")
    try:
        value = float(value)
    except OverflowError:
        value = float("inf")
    if value != 0 and not 1 / MOST_FIGURE <= value <= MOST_FIGURE:
        raise BadLogError(f"has {key} {value} in {where}")
    return value
