"""The browser's view: optuna-dashboard on loopback, with our note and plot on each study.

Nothing is fetched from elsewhere: optuna-dashboard brings all its pages along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner import figures
from tuner.dashboard.notes import note
from tuner.dashboard.plots import plot

if TYPE_CHECKING:
    from tuner.exporters import ExportInput

#: The plot's id in the study: the same each time, so that it is replaced and not added.
PLOT_ID = "tune-times"


def annotate(url: str, data: ExportInput) -> None:
    """Save the result as the study's note, and the plot of its times; again and again the same.

    Args:
        url: The database that holds the study.
        data: The study as it is stored.

    Raises:
        TunerError: The database cannot be written to.
    """
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    from tuner.study import attach

    text, figure = note(data), plot(data)
    with attach.translating(url):
        study = attach.load(attach.open_storage(url), data.spec.name)
        if study is None:
            return
        if get_note(study) != text:  # saving makes a new version each time
            save_note(study, text)
        attach.name_metric(study, figures.axis(data.spec.objective))
        if figure is not None:
            save_plotly_graph_object(study, figure, graph_object_id=PLOT_ID)
