"""The stages of a study: what a launch is made for, and what follows from that.

Whatever depends on the purpose of a launch stands in the table here, a row for each purpose. A
purpose itself is compared only where just this one is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


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


class SettingSource(Enum):
    """What chooses the setting of a launch."""

    #: The sampler of the study suggests it.
    SAMPLER = "sampler"
    #: It is one of the guesses that the tool or an earlier study makes before anything is measured.
    GUESSES = "guesses"
    #: It follows from the launches so far.
    HISTORY = "history"
    #: Nothing chooses: it is the default, or what the study fixes.
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A row of the table.

    Attributes:
        settings: What chooses the setting.
        rules: The rules that may stop the launch early, by the names of their functions in
            :mod:`tuner.study.stopping_rules`. Of several that stop it at once the first counts.
        is_of_search: The launch is a trial of the search; others are trials of the comparison.
        counts_as_trial: A new setting counts against ``--trials``.
        counts_for_budget: The launch's time counts against ``--budget``.
        is_evidence: What is measured says something of the setting; else it is thrown away.
        may_be_window: The setting may be measured in a running job.
        may_leave_knobs_out: The setting need not give each knob a value.
        follows_search: The launch is made once the search has found its best setting.
        is_unselected: No search chose the setting for the times of these launches, so that they
            may be compared with those of another study.
    """

    settings: SettingSource
    rules: tuple[str, ...]
    is_of_search: bool = False
    counts_as_trial: bool = False
    counts_for_budget: bool = True
    is_evidence: bool = True
    may_be_window: bool = False
    may_leave_knobs_out: bool = False
    follows_search: bool = False
    is_unselected: bool = False


#: The rules that may stop any launch but those that are thrown away, or of one fixed setting.
_RULES = ("pruner", "max_time")

#: What the stages of a study are, in the order in which they begin.
STAGES = {
    Purpose.WARM_UP: Stage(
        settings=SettingSource.HISTORY,
        rules=("max_time",),
        is_evidence=False,
    ),
    Purpose.BASELINE: Stage(
        settings=SettingSource.NOTHING,
        rules=_RULES,
    ),
    Purpose.GUESS: Stage(
        settings=SettingSource.GUESSES,
        rules=_RULES,
        is_of_search=True,
        counts_as_trial=True,
        may_be_window=True,
    ),
    Purpose.SEARCH: Stage(
        settings=SettingSource.SAMPLER,
        rules=_RULES,
        is_of_search=True,
        counts_as_trial=True,
        may_be_window=True,
    ),
    Purpose.REPEAT: Stage(
        settings=SettingSource.HISTORY,
        rules=_RULES,
        is_of_search=True,
        may_be_window=True,
    ),
    Purpose.SIMPLIFY: Stage(
        settings=SettingSource.HISTORY,
        rules=_RULES,
        is_of_search=True,
        may_be_window=True,
        may_leave_knobs_out=True,
        follows_search=True,
    ),
    Purpose.CONFIRM: Stage(
        settings=SettingSource.HISTORY,
        rules=_RULES,
        counts_for_budget=False,
        follows_search=True,
        is_unselected=True,
    ),
    Purpose.RECORD: Stage(
        settings=SettingSource.NOTHING,
        rules=("max_time",),
        is_of_search=True,
        counts_as_trial=True,
        is_unselected=True,
    ),
}
