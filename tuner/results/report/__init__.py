"""A study as one page: its words and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView


def report(data: StudyView, home: str = "") -> str:
    """The page of a study: one HTML file that works without a network.

    ``home`` is the address of the other studies, if the page is a part of the dashboard.
    """
    from tuner.results.report.page import page

    return page(data, weights(data), home)


def weights(data: StudyView) -> dict[str, float]:
    """The importance of the study's knobs, as far as it is known."""
    from tuner.study.history import History
    from tuner.study.importance import importance

    return importance(History(data.spec, data.records))
