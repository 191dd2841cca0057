"""The stages of a study: what a launch is made for, and what follows from that.

Whatever depends on the purpose of a launch stands in the table here, a row for each purpose. Other
modules name a purpose only where just this one is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Purpose(StrEnum):
    """What a launch is made for."""

    WARM_UP = "warm-up"
    BASELINE = "baseline"
    GUESS = "guess"
    SEARCH = "search"
    REPEAT = "repeat"
    SIMPLIFY = "simplify"
    CONFIRM = "confirm"
    RECORD = "record"

    @property
    def stage(self) -> Stage:
        """The purpose's row of the table."""
        return STAGES[self]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A row of the table."""

    #: The rules that may stop the launch early, by the names of their functions in
    #: :mod:`tuner.study.stopping_rules`. Of several that stop it at once the first counts.
    rules: tuple[str, ...] = ("pruner", "max_time")
    is_sampled: bool = False  # the sampler of the study chooses the setting
    is_of_search: bool = False  # the launch is a trial of the search, not of the comparison
    counts_as_trial: bool = False  # a new setting counts against ``--trials``
    counts_for_budget: bool = True  # the launch's time counts against ``--budget``
    is_evidence: bool = True  # the launch counts as evidence about its setting
    may_be_window: bool = False  # the setting may be measured in a running job
    may_leave_knobs_out: bool = False  # the setting need not give each knob a value
    follows_search: bool = False  # it comes after the search has chosen its best setting


#: The stages of a study, in the order in which they begin.
STAGES = {
    Purpose.WARM_UP: Stage(rules=("max_time",), is_evidence=False),
    Purpose.BASELINE: Stage(),
    Purpose.GUESS: Stage(is_of_search=True, counts_as_trial=True, may_be_window=True),
    Purpose.SEARCH: Stage(
        is_sampled=True, is_of_search=True, counts_as_trial=True, may_be_window=True
    ),
    Purpose.REPEAT: Stage(is_of_search=True, may_be_window=True),
    Purpose.SIMPLIFY: Stage(
        is_of_search=True, may_be_window=True, may_leave_knobs_out=True, follows_search=True
    ),
    Purpose.CONFIRM: Stage(counts_for_budget=False, follows_search=True),
    Purpose.RECORD: Stage(rules=("max_time",), is_of_search=True, counts_as_trial=True),
}
