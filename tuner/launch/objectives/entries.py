"""What the entries of a LogReport's log say (pure).

Each has an ``iteration`` and the ``elapsed_time`` (s, since the trainer began).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.launch.objectives.formats import BadLogError
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
            (loss_check.finite(each[key]) for each in reversed(entries) if key in each), None
        )
    found = (loss_check.finite(entries[-1].get(usual)) for usual in LOSSES)
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


def sound(entries: Sequence[JsonDict]) -> tuple[Progress, ...]:
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
