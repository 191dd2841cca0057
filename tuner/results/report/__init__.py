"""A study as one page: its words and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView


def report(data: StudyView, home: str = "") -> str:
    """The page of a study; see :func:`tuner.results.report.page.report`."""
    from tuner.results.report import page

    return page.report(data, home)
