"""The browser's view: optuna-dashboard on loopback, with our note and figures on each study.

Nothing is fetched from elsewhere: optuna-dashboard brings all its pages along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.model import figures
from tuner.results.dashboard.notes import note
from tuner.results.dashboard.plots import plots

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView


def annotate(url: str, data: StudyView) -> None:
    """Save the result as the study's note, and its figures; again and again the same.

    Args:
        url: The database that holds the study.
        data: The study as it is stored.

    Raises:
        TunerError: The database cannot be written to.
    """
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    from tuner.results.report import weights
    from tuner.study import optuna_trials

    text, found = note(data), plots(data, weights(data))
    with optuna_trials.translating(url):
        study = optuna_trials.load(optuna_trials.open_storage(url), data.spec.name)
        if study is None:
            return
        if get_note(study) != text:  # saving makes a new version each time
            save_note(study, text)
        optuna_trials.name_metric(study, figures.axis(data.spec.objective))
        for name, figure in found.items():  # under the same names: replaced, not added
            save_plotly_graph_object(study, figure, graph_object_id=name)
