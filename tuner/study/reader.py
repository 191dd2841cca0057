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

#: The attribute of a trial that names the host which runs it, if hosts can share the study.
HOST = "host"


class Reader:
    """What :class:`tuner.search.RuntimeSampler` reads of a study that ``tune`` has made.

        study = optuna.load_study(study_name=NAME, storage=URL)
        study.sampler = RuntimeSampler(read=Reader())
        study.ask().relative_params

    is the setting that ``tune`` launches next. A reader serves one study: with the ``spec`` that
    the user asks for now, or with the stored one.
    """

    def __init__(self, spec: StudySpec | None = None, policy: Policy | None = None) -> None:
        self._spec, self._policy = spec, policy or SearchThenConfirm()
        self._records: dict[int, LaunchRecord] = {}  # by the id of the trial
        self._comparison_id: int | None = None
        self._last_read: tuple[Any, History] | None = None
        #: Whether nobody else adds launches: then the trials are read again only after `changed`.
        self.is_alone = False
        self._is_current = False  # nothing has changed since the last read

    def __call__(self, study: optuna.Study) -> Problem:
        """Return the study in the words of the search."""
        return self._policy.problem(self.history(study))

    def history(self, study: optuna.Study) -> History:
        """Return the launches of a search: the same object as long as nothing has changed.

        If it is damaged or not of ``tune``: ``KeyError``, ``ValueError`` or ``TypeError``.
        """
        if self._last_read is not None and self._is_current:
            return self._last_read[1]
        attributes = study._storage.get_study_user_attrs(study._study_id)
        spec = self._spec or rows.study_row(study.study_name, attributes).spec
        # From the storage: `study` may be one that shows a sampler other trials than it has.
        storage, name = study._storage, comparison_name(study.study_name)
        search_trials = storage.get_all_trials(study._study_id, deepcopy=False)
        if self._comparison_id is None:
            self._comparison_id = storage.get_study_id_from_name(name)
        comparison_trials = storage.get_all_trials(self._comparison_id, deepcopy=False)
        ended = [t for t in (*search_trials, *comparison_trials) if RECORD in t.user_attrs]
        excluded = rows.excluded(attributes)
        local_host = spec.machine.hostname
        pending = tuple(
            Setting.of(trial.params)
            for trial in search_trials
            if trial.state is TrialState.RUNNING
            and trial.params
            and trial.user_attrs.get(HOST, local_host) != local_host  # another one measures it
        )
        state = spec, excluded, pending, [trial._trial_id for trial in ended]
        if self._last_read is None or self._last_read[0] != state:
            numbers = {trial._trial_id: trial.number for trial in search_trials}
            records = [self._record(trial, numbers, excluded) for trial in ended]
            records.sort(key=lambda record: record.number)
            history = History.judged(spec, records)
            pending = tuple(map(history.pooling.canonical, pending))
            self._last_read = state, replace(history, pending=pending)
        self._is_current = self.is_alone
        return self._last_read[1]

    def changed(self) -> None:
        """Have the trials read again, as this process has changed them."""
        self._is_current = False

    def remember(self, trial_id: int, record: LaunchRecord) -> None:
        """Keep a launch of this process: the observation of its ranks is in no attribute."""
        self._records[trial_id] = record
        self.changed()

    def _record(
        self, trial: FrozenTrial, numbers: dict[int, int], excluded: dict[int, Exclusion]
    ) -> LaunchRecord:
        trial_id = trial._trial_id
        if trial_id not in self._records:
            self._records[trial_id] = rows.launch_record(trial.user_attrs[RECORD])
        record = rows.with_exclusion(self._records[trial_id], excluded)
        return replace(record, trial=numbers.get(trial_id))
