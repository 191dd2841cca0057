"""What a study comes to in the words of the search, and how a sampler decides by it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.model import Lesson, Purpose
from tuner.search.engine import Done, Search
from tuner.search.history import SearchObservation
from tuner.search.options import Options
from tuner.search.scoring import Live
from tuner.search.space import Key, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Suggestion:
    """The next launch: what for, and the parameters of its setting.

    ``params`` are empty for the program's own defaults.
    """

    purpose: Purpose
    params: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A study, as far as what is launched next depends on it.

    Attributes:
        space: What can be tried; ``None``: nothing is left to choose.
        observations: What its launches came to, the oldest first.
        params: The parameters of a setting of the space.
        distributions: What Optuna knows of all parameters.
        options: When the search ends.
        seed: Of the search's draws.
        lesson: What an earlier study showed.
        live: What running jobs change of the costs, in a study that measures live.
        is_shared: Whether other hosts measure a part of it.
        first: What is launched before anything that the search wants; ``None``: nothing.
        last: What is launched once the search has ended; ``None``: nothing.
    """

    space: Space | None
    observations: Sequence[SearchObservation] = ()
    params: Callable[[Key], Mapping[str, Any]] = lambda _: {}
    distributions: Callable[[], Mapping[str, BaseDistribution]] = dict
    options: Options = field(default_factory=Options)
    seed: int = 0
    lesson: Lesson | None = None
    live: Live | None = None
    is_shared: bool = False
    first: Suggestion | None = None
    last: Callable[[], Suggestion | None] = lambda: None


class Searching:
    """Decides what is launched next in one study, as often as it is asked.

    The answer follows from the problem alone. What is kept from one answer to the next saves time.
    """

    def __init__(self) -> None:
        self._search: Search | None = None
        self._answered: tuple[Problem, Suggestion | Done] | None = None

    def next(self, problem: Problem) -> Suggestion | Done:
        """The next launch, or why the search is over."""
        if self._answered is None or self._answered[0] is not problem:
            self._answered = problem, self._next(problem)
        return self._answered[1]

    def _next(self, problem: Problem) -> Suggestion | Done:
        if problem.first is not None:
            return problem.first
        if problem.space is None:
            return problem.last() or Done("exhausted")
        step = self.search(problem).next(
            problem.observations, problem.live, is_shared=problem.is_shared
        )
        if isinstance(step, Done):
            return problem.last() or step
        return Suggestion(
            step.purpose, {} if step.setting is None else problem.params(step.setting)
        )

    def search(self, problem: Problem) -> Search:
        """The search over the problem's space; kept as long as that stays the same."""
        assert problem.space is not None
        kept, space, options = self._search, problem.space, problem.options
        if kept is None or (kept.space, kept.options, kept.seed, kept.lesson) != (
            space,
            options,
            problem.seed,
            problem.lesson,
        ):
            kept = self._search = Search(space, options, problem.seed, problem.lesson)
        return kept
