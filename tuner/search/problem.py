"""A problem is a study in the words of the search; it says what is launched next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tuner.model import Purpose
from tuner.search.engine import Done, Search
from tuner.search.grid import Key
from tuner.search.launch_groups import SearchObservation
from tuner.search.scoring import Live

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Suggestion:
    """The purpose of the next launch and the parameters of its setting; none for the defaults."""

    purpose: Purpose
    params: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem holds all that the next launch depends on."""

    search: Search | None  # decides over the space of the study; None: nothing is left to choose
    observations: Sequence[SearchObservation] = ()  # what launches came to, the oldest first
    params: Callable[[Key], Mapping[str, Any]] = lambda _: {}  # of a setting of the space
    distributions: Callable[[], Mapping[str, BaseDistribution]] = dict  # of all parameters
    live: Live | None = None  # what running jobs change of the costs
    is_shared: bool = False  # other hosts measure a part of it
    first: Suggestion | None = None  # is launched before anything that the search wants
    last: Callable[[], Suggestion | None] = lambda: None  # is launched once the search has ended

    @cached_property
    def next(self) -> Suggestion | Done:
        """Return what is launched next, or why the search is over."""
        if self.first is not None:
            return self.first
        if self.search is None:
            return self.last() or Done("exhausted")
        step = self.search.next(self.observations, self.live, is_shared=self.is_shared)
        if isinstance(step, Done):
            return self.last() or step
        return Suggestion(step.purpose, {} if step.setting is None else self.params(step.setting))


#: A search that is used again saves time; its answers are the same.
search_over = lru_cache(maxsize=8)(Search)
