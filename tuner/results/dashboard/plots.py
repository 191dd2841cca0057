"""The plots on a study's page: the report's figures, as many as it can bear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tuner.results.report.plots import FAMILIES, Figure
from tuner.results.report.plots.style import THEMES, inert

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView

#: In front of the figure's key: its id in the study.
PREFIX = "tune-"


def plots(data: StudyView, weights: Mapping[str, float]) -> dict[str, Any]:
    """Plotly's figures by their id: those that the report shows at once, each with its summary.

    Args:
        data: The study.
        weights: The importance of its knobs.
    """
    found = [figure for family in FAMILIES for figure in family.build(data, weights)]
    return {
        f"{PREFIX}{figure.key}": _plot(figure)
        for figure in found
        if figure.drawing is not None and not figure.is_extra
    }


def _plot(figure: Figure) -> Any:
    """The drawing under its title; the page that it stands on is light."""
    import plotly.graph_objects as go

    assert figure.drawing is not None
    made = go.Figure(figure.drawing)
    top = {"t": 88} if figure.drawing["layout"].get("showlegend") else {"t": 56}
    title = {"text": inert(figure.title, 120), "x": 0.01, "y": 0.99, "yanchor": "top"}
    made.update_layout(template=THEMES["light"], title=title, margin=top)
    return made
