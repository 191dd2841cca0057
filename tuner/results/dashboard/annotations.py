"""Our annotations on Optuna's page of a study: a note, the report's figures, the importance.

The note is what ``tune`` says at its end, as Markdown. It has text that other programs wrote (a
failure, values, the host name): none of that may become a link, a picture or a tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tuner.model import wording
from tuner.model.wording import one_line
from tuner.results.exporters.table import markdown_text

if TYPE_CHECKING:
    from tuner.results.report.plots import Figure
    from tuner.results.study_view import StudyView

#: In front of the figure's key: its id in the study.
PREFIX = "tune-"

#: The system attribute of an Optuna study that holds our importance of its knobs.
IMPORTANCE = "tune:importance"


def annotate(url: str, data: StudyView) -> None:
    """Save note, figures and importance with the study; the same ones each time.

    Args:
        url: The database that holds the study.
        data: The study as it is stored.

    Raises:
        TunerError: The database cannot be written to.
    """
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    from tuner.results.report import weights
    from tuner.store import Store

    importance = weights(data)
    text, figures = note(data), plots(data, importance)
    with Store.open(url, create=False) as store, store.translated():
        study = store.search(data.spec.name)
        if get_note(study) != text:  # saving makes a new version each time
            save_note(study, text)
        study._storage.set_study_system_attr(study._study_id, IMPORTANCE, importance)
        for name, figure in figures.items():  # under the same names: replaced, not added
            save_plotly_graph_object(study, figure, graph_object_id=name)


def note(data: StudyView) -> str:
    """The result as Markdown: the verdict and the summary of the report, and commands to use it."""
    from tuner.results.report import words

    use, name = words.use(data, data.result.storage), quote(data.spec.name)
    commands = [one_line(f"{line} # {what}", None) for line, what in use]
    rows = [*words.summary(data), *words.machine(data)]
    lines = [
        f"## {data.spec.name}",
        "",
        f"**{markdown_text(words.verdict(data))}**",
        "",
        *(f"- {heading}: {markdown_text(text)}" for heading, text in rows),
        *(f"- {markdown_text(wording.capped(cap))}" for cap in data.result.caps),
        "",
        *(["```", *commands, "```", ""] if commands else []),
        f"The figures are on the study's first page, all of them in [its report](/report/{name}).",
    ]
    return "\n".join(lines)


def plots(data: StudyView, weights: Mapping[str, float]) -> dict[str, Any]:
    """Plotly's figures by their id: those that the report shows at once, each with its summary.

    Args:
        data: The study.
        weights: The importance of its knobs.
    """
    from tuner.results.report.plots import FAMILIES

    figures = [figure for family in FAMILIES for figure in family.build(data, weights)]
    return {
        f"{PREFIX}{figure.key}": _plot(figure)
        for figure in figures
        if figure.drawing is not None and not figure.is_extra
    }


def _plot(figure: Figure) -> Any:
    """The drawing under its title; the page that it stands on is light."""
    import plotly.graph_objects as go

    from tuner.results.report.plots.style import THEMES, inert

    assert figure.drawing is not None
    plotly_figure = go.Figure(figure.drawing)
    top = {"t": 88} if figure.drawing["layout"].get("showlegend") else {"t": 56}
    title = {"text": inert(figure.title, 120), "x": 0.01, "y": 0.99, "yanchor": "top"}
    plotly_figure.update_layout(template=THEMES["light"], title=title, margin=top)
    return plotly_figure
