"""The entries of a log: its formats (a JSON list, JSON lines, YAML), and what they say (pure).

Each entry has an ``iteration`` and the ``elapsed_time`` (s, since the trainer began).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from tuner.launch.objectives.validation import MOST
from tuner.model import CLOCK, JsonDict, Progress
from tuner.model.errors import shown
from tuner.model.wording import one_line
from tuner.search import throughput
from tuner.stats import loss_check

#: What losses are called, the most common first.
LOSSES = ("main/loss", "validation/main/loss", "loss", "train/loss")

#: Iterations that a database holds and a float tells apart.
MOST_ITERATIONS = 2**53

#: So many of a log's keys are listed if the wanted one is not among them.
MOST_KEYS = 20
LONGEST_KEY = 60

#: Of what a parser says of a log so many letters are a reason: it quotes the log.
LONGEST_FAULT = 400

#: What ``yaml.safe_load`` raises beside YAMLError, for tagged scalars that are malformed.
_YAML_QUIRKS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


class BadLogError(Exception):
    """The log cannot be used; the message says why, without the file's name."""


def parse(data: bytes, suffix: str = "") -> list[JsonDict]:
    """The entries of a log, told apart by the file's suffix, else by its content.

    Raises:
        BadLogError: Empty, truncated, or not a log at all.
    """
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadLogError(f"is not text (byte {error.start} is not UTF-8)") from None
    if not text:
        raise BadLogError("is empty")
    try:
        entries = _reader(text, suffix)(text)
    except RecursionError:
        raise BadLogError("is not a LogReport: it is nested too deeply") from None
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise BadLogError("is not a LogReport: it is not a list of entries")
    if not entries:
        raise BadLogError("has no entries")
    return entries


def _reader(text: str, suffix: str) -> Callable[[str], Any]:
    if suffix == ".jsonl" or (suffix not in {".yaml", ".yml", ".json"} and text.startswith("{")):
        return lambda lines: [_json(line) for line in lines.split("\n") if line.strip()]
    if suffix in {".yaml", ".yml"} or (suffix != ".json" and text.startswith("-")):
        return _yaml
    return _json


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        # A log cut short begins like one and ends too early for the parser.
        open_ended = "Unterminated" in error.msg or error.pos >= len(text.rstrip()) - 1
        cut = open_ended and text.lstrip().startswith(("[", "{"))
        fault = "is truncated" if cut else "is not a LogReport"
        raise BadLogError(f"{fault}: {error}") from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise BadLogError(f"is not a LogReport: {error}") from None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        fault = one_line(" ".join(str(error).split()), LONGEST_FAULT)
        raise BadLogError(f"is truncated or not YAML: {fault}") from None
    except _YAML_QUIRKS as error:
        fault = one_line(f"{type(error).__name__}: {error}", LONGEST_FAULT)
        raise BadLogError(f"is not a LogReport: {fault}") from None


def check(entries: Sequence[JsonDict], key: str = CLOCK) -> tuple[list[Progress], float]:
    """The progress in the entries, and the last value of `key`.

    Raises:
        BadLogError: Something is missing, is no sensible number, or runs backwards.
    """
    progress = list(_steps(entries))
    value: float | None = None
    for number, entry in enumerate(entries, start=1):
        if key in entry:
            value = _number(entry, key, f"entry {number}")
    if value is None:
        keys = list(dict.fromkeys(key for entry in entries for key in entry))
        listed = ", ".join(one_line(str(each), LONGEST_KEY) for each in keys[:MOST_KEYS])
        more = " …" if len(keys) > MOST_KEYS else ""
        raise BadLogError(f"has no {key} in any entry; its keys are {listed}{more}")
    if value == 0:
        raise BadLogError(f"ends with {key} = 0: nothing was measured")
    return progress, value


def steady_s(progress: Sequence[Progress]) -> float:
    """Seconds an iteration after the warm-up (:func:`tuner.search.throughput.steady_s`).

    Raises:
        BadLogError: The log does not tell.
    """
    found = throughput.steady_s([(step.iteration, step.elapsed_s) for step in progress])
    if found is None:
        share = (
            f"the first {throughput.WARM_UP_SHARE:.0%} of its {progress[-1].iteration} iterations"
        )
        raise BadLogError(
            f"has no steady state: no two entries with time between them behind {share}"
        )
    return found


def epochs(entries: Sequence[JsonDict]) -> float | None:
    """How many epochs the training did, if the log says so exactly; else ``None``.

    ``epoch_detail`` of the last entry; or its ``epoch``, a count of whole ones, if the log has an
    entry for each.
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
            (loss_check.finite(each[key]) for each in reversed(entries) if key in each), None
        )
    found = (loss_check.finite(entries[-1].get(usual)) for usual in LOSSES)
    return next((loss for loss in found if loss is not None), None)


def sound(entries: Sequence[JsonDict]) -> tuple[Progress, ...]:
    """The progress up to the first entry that is not sound."""
    progress: list[Progress] = []
    with suppress(BadLogError):
        for step in _steps(entries):
            progress.append(step)
    return tuple(progress)


def _steps(entries: Sequence[JsonDict]) -> Iterator[Progress]:
    last = Progress(0, 0.0)
    for number, entry in enumerate(entries, start=1):
        where = f"entry {number}"
        done = entry.get("iteration")
        if type(done) is not int or not 0 <= done <= MOST_ITERATIONS:
            found = f"iteration {shown(done)}" if "iteration" in entry else "no iteration"
            raise BadLogError(f"has {found} in {where}")
        step = Progress(done, _number(entry, CLOCK, where))
        if number > 1 and step.elapsed_s < last.elapsed_s:
            clock = f"from {last.elapsed_s} to {step.elapsed_s}"
            raise BadLogError(f"has a clock that goes backwards: {CLOCK} {clock} in {where}")
        if step.iteration < last.iteration:
            steps = f"from {last.iteration} to {step.iteration}"
            raise BadLogError(f"has iterations that go backwards: {steps} in {where}")
        yield step
        last = step


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
