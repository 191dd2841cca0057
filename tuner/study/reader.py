"""The reader makes a history of the trials of a study, whoever has opened the database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from tuner.model import Exclusion, LaunchRecord, Setting, StudySpec
from tuner.search.engine import Problem
from tuner.store import rows
from tuner.store.rows import RECORD
from tuner.store.store import comparison_name
from tuner.study.history import History
from tuner.study.policy import Policy, SearchThenConfirm

#: On each trial of a study that hosts can share: which one runs it.
HOST = "host"


class Reader:
    """What :class:`tuner.search.RuntimeSampler` reads of a study that ``tune`` has made.

        study = optuna.load_study(study_name=NAME, storage=URL)
        study.sampler = RuntimeSampler(read=Reader())
        study.ask().relative_params

    is the setting that ``tune`` launches next. A reader serves one study, as the user asks for it
    now in the ``spec``, or as it is stored.
    """

    def __init__(self, spec: StudySpec | None = None, policy: Policy | None = None) -> None:
        self._spec, self._policy = spec, policy or SearchThenConfirm()
        self._records: dict[int, LaunchRecord] = {}  # by the id of the trial
        self._comparison_id: int | None = None
        self._last: tuple[Any, History] | None = None
        #: Whether nobody else adds launches: then the trials are read again only after `changed`.
        self.is_alone = False
        self._is_current = False

    def __call__(self, study: optuna.Study) -> Problem:
        """Return the study in the words of the search."""
        return self._policy.problem(self.history(study))

    def history(self, study: optuna.Study) -> History:
        """Return the launches of a search: the same object as long as nothing has changed.

        If it is damaged or not of ``tune``: ``KeyError``, ``ValueError`` or ``TypeError``.
        """
        if self._last is not None and self._is_current:
            return self._last[1]
        attributes = study._storage.get_study_user_attrs(study._study_id)
        spec = self._spec or rows.study_row(study.study_name, attributes).spec
        # As they are stored: a sampler may be shown others.
        storage, compared_name = study._storage, comparison_name(study.study_name)
        searched = storage.get_all_trials(study._study_id, deepcopy=False)
        if self._comparison_id is None:
            self._comparison_id = storage.get_study_id_from_name(compared_name)
        compared = storage.get_all_trials(self._comparison_id, deepcopy=False)
        ended = [trial for trial in (*searched, *compared) if RECORD in trial.user_attrs]
        excluded = rows.excluded(attributes)
        local_host = spec.machine.hostname
        pending = tuple(
            Setting.of(trial.params)
            for trial in searched
            if trial.state is TrialState.RUNNING
            and trial.params
            and trial.user_attrs.get(HOST, local_host) != local_host  # another one measures it
        )
        state = spec, excluded, pending, [trial._trial_id for trial in ended]
        if self._last is None or self._last[0] != state:
            numbers = {trial._trial_id: trial.number for trial in searched}
            records = [self._record(trial, numbers, excluded) for trial in ended]
            records.sort(key=lambda record: record.number)
            history = History.judged(spec, records)
            canonical = history.pooling.canonical
            pending = tuple(canonical(setting) for setting in pending)
            self._last = state, replace(history, pending=pending)
        self._is_current = self.is_alone
        return self._last[1]

    def changed(self) -> None:
        """Have the trials read again, as this process has changed them."""
        self._is_current = False

    def remember(self, trial_id: int, record: LaunchRecord) -> None:
        """Keep a launch of this process: what its ranks were seen to do is in no attribute."""
        self._records[trial_id] = record
        self.changed()

    def _record(
        self, trial: FrozenTrial, numbers: dict[int, int], excluded: dict[int, Exclusion]
    ) -> LaunchRecord:
        number = trial._trial_id
        if number not in self._records:
            self._records[number] = rows.launch_record(trial.user_attrs[RECORD])
        record = rows.with_exclusion(self._records[number], excluded)
        return replace(record, trial=numbers.get(number))
