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
    """A problem holds all that the next launch depends on.

    Attributes:
        search: Decides over the space of the study; ``None``: nothing is left to choose.
        observations: What its launches came to, the oldest first.
        params: The parameters of a setting of the space.
        distributions: What Optuna knows of all parameters.
        live: What running jobs change of the costs, in a study that measures live.
        is_shared: Whether other hosts measure a part of it.
        first: What is launched before anything that the search wants; ``None``: nothing.
        last: What is launched once the search has ended; ``None``: nothing.
    """

    search: Search | None
    observations: Sequence[SearchObservation] = ()
    params: Callable[[Key], Mapping[str, Any]] = lambda _: {}
    distributions: Callable[[], Mapping[str, BaseDistribution]] = dict
    live: Live | None = None
    is_shared: bool = False
    first: Suggestion | None = None
    last: Callable[[], Suggestion | None] = lambda: None

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
