"""What ``tuner.tune`` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.model import Result
from tuner.model.errors import UsageError
from tuner.results.report import cell, words
from tuner.results.study_view import StudyView

if TYPE_CHECKING:
    import optuna


class TuneResult(Result):
    """A :class:`tuner.model.Result`; a notebook shows its verdict, its times and its launches.

    Attributes:
        view: The study with its launches, from which reports and exports are made.
    """

    view: StudyView
    _url: str

    def __init__(self, view: StudyView, url: str) -> None:
        super().__init__(**vars(view.result))
        vars(self).update(view=view, _url=url)

    @property
    def study(self) -> optuna.Study:
        """The Optuna study, for ``optuna.visualization`` and all else that takes one.

        Raises:
            UsageError: It is not in the database any more.
        """
        from tuner.model import figures
        from tuner.study import optuna_study

        storage = optuna_study.open_storage(self._url)
        found = optuna_study.load(storage, self.name, figures.axis(self.objective))
        if found is None:
            raise UsageError(f"the study {self.name} is not there any more", "call tune() again")
        return found

    def __repr__(self) -> str:
        return f"<TuneResult {self.name}: {words.verdict(self.view)}>"

    def _repr_html_(self) -> str:
        return cell.html(self.view)
