"""The figures of a study. Pure: what they draw is Plotly's own JSON, nothing is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tuner.results.report.plots import comparison, launches, space, timelines
from tuner.results.report.plots.style import Figure, Table
from tuner.results.study_view import StudyView

__all__ = ["FAMILIES", "Family", "Figure", "Table"]

Build = Callable[[StudyView, Mapping[str, float]], list[Figure]]


@dataclass(frozen=True)
class Family:
    """Figures under one heading.

    ``build`` is given the study and the importance of its knobs; an empty list leaves the
    heading out. ``more`` is said of those that are shown only if they are asked for.
    """

    key: str
    heading: str
    build: Build
    more: str = ""
    is_small: bool = False  # two beside each other


#: One row a family, in the order of the page.
FAMILIES = (
    Family("versus", "Result", lambda data, _: launches.versus(data)),
    Family("comparison", "Comparison", lambda data, _: comparison.build(data)),
    Family("history", "History", lambda data, _: launches.history(data)),
    Family("importance", "Importance", lambda _, weights: space.importance(weights)),
    Family("knobs", "Each knob", space.knobs, "more knobs", is_small=True),
    Family("pairs", "Pairs of knobs", space.pairs, "more pairs", is_small=True),
    Family("timelines", "Over time", lambda data, _: timelines.build(data), is_small=True),
)
