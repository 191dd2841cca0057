"""How much is measured: the figures of a study that the command line or the study file may set."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypedDict, TypeVar

from tuner.config.spec.options import RunOptions
from tuner.knobs import ROLES
from tuner.knobs.core_budget import OVERSUBSCRIPTION
from tuner.model import Live
from tuner.model.errors import UsageError, shown

if TYPE_CHECKING:
    from tuner.config.study_file import StudyFile

T = TypeVar("T")

DEFAULT_TRIALS = 50
DEFAULT_WARM_UPS = 1
DEFAULT_LIVE: Live = "auto"
DEFAULT_STALL_LIMIT_S = 120.0
DEFAULT_UNTIL = 0.01
DEFAULT_PRECISION = 0.02
#: More ranks, trials or warm-ups than anybody has.
MOST_WHOLE = 10**9
#: More items or money than anybody has; one over it is less.
MOST_AMOUNT = 1e15
#: The largest seed that NumPy's generators take.
MAX_SEED = 2**32 - 1


class Limits(TypedDict):
    """Fields of :class:`tuner.model.StudySpec`."""

    trials: int
    budget_s: float | None
    until: float
    precision: float
    oversubscription: float | None
    confirm: bool
    warm_ups: int
    live: Live
    trial_limit_s: float | None
    stall_limit_s: float | None
    seed: int
    items: float | None
    price_per_hour: float | None


def limits(options: RunOptions, file: StudyFile, own: AbstractSet[str]) -> Limits:
    """Merge and check them.

    Args:
        options: The command line.
        file: The study file.
        own: The knobs whose values the user named: where one of them asks for cores nothing is
            left out for asking for too many, unless that is asked for too.

    Raises:
        UsageError: A figure that makes no sense.
    """
    bound = None if own & ROLES.keys() else OVERSUBSCRIPTION
    over = first(options.oversubscribe, file.oversubscription, bound)
    if over is not None and not (over >= 1 and math.isfinite(over)):
        message = f"--oversubscribe {over:g}: must be a number of at least 1."
        raise UsageError(message, "Such as 2 or 4.")
    return Limits(
        trials=whole("--trials", options.trials, file.trials, DEFAULT_TRIALS),
        budget_s=_time_s("--budget", options.budget_s, file.budget_s),
        until=_share("--until", options.until, file.until, DEFAULT_UNTIL),
        precision=_share("--precision", options.precision, file.precision, DEFAULT_PRECISION),
        oversubscription=over,
        confirm=first(options.confirm, file.confirm, True),
        warm_ups=whole("--warm-ups", options.warm_ups, file.warm_ups, DEFAULT_WARM_UPS, low=0),
        live=first(options.live, file.live, DEFAULT_LIVE),
        trial_limit_s=_time_s("--trial-limit", options.trial_limit_s, file.trial_limit_s),
        stall_limit_s=_stall_limit_s(options.stall_limit_s, file.stall_limit_s),
        seed=whole("--seed", options.seed, file.seed, 0, low=0, high=MAX_SEED),
        items=_amount("--items", options.items, file.items),
        price_per_hour=_amount("--price-per-hour", options.price_per_hour, file.price_per_hour),
    )


def first(typed: T | None, filed: T | None, default: T) -> T:
    """The first that is given: the command line's, the study file's, the default."""
    for value in (typed, filed):
        if value is not None:
            return value
    return default


def whole(
    option: str,
    typed: int | None,
    filed: int | None,
    default: int,
    *,
    low: int = 1,
    high: int | None = None,
) -> int:
    """A whole number of at least ``low``.

    Raises:
        UsageError: It is smaller, or larger than ``high``.
    """
    value = first(typed, filed, default)
    most = MOST_WHOLE if high is None else high
    if not low <= value <= most:
        one_end = high is None and value < low
        bounds = f"at least {low}" if one_end else f"between {low} and {most}"
        raise UsageError(
            f"{option} {shown(value)}: must be {bounds}.", f"For example {option} {low}."
        )
    return value


def _time_s(option: str, typed: float | None, filed: float | None) -> float | None:
    time_s = first(typed, filed, None)
    if time_s is not None and not (time_s > 0 and math.isfinite(time_s)):
        raise UsageError(f"{option} {time_s:g}: must be above 0 s.", "Such as 90s or 5m.")
    return time_s


def _amount(option: str, typed: float | None, filed: float | None) -> float | None:
    value = first(typed, filed, None)
    if value is not None and not 1 / MOST_AMOUNT <= value <= MOST_AMOUNT:
        raise UsageError(f"{option} {value:g}: must be above 0.", f"For example {option} 100.")
    return value


def _stall_limit_s(typed: float | None, filed: float | None) -> float | None:
    """The time without a sign of life; infinity stands for none."""
    time_s = first(typed, filed, DEFAULT_STALL_LIMIT_S)
    return None if time_s == math.inf else _time_s("--stall-limit", time_s, None)


def _share(option: str, typed: float | None, filed: float | None, default: float) -> float:
    share = first(typed, filed, default)
    if not 0 < share < 1:
        raise UsageError(
            f"{option} {100 * share:g}%: must lie between 0 % and 100 %.", "Such as 1%."
        )
    return share
