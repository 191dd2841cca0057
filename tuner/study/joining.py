"""A host that has joined a study: it measures a part of the search, for the host that began it.

It runs the same loop as that one; what differs is its policy, and what its store leaves alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

from tuner.model import (
    Exclusion,
    ExclusionKind,
    LaunchRecord,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
    StudyState,
    figures,
)
from tuner.model.errors import TunerError
from tuner.search import Done
from tuner.search.problem import Suggestion
from tuner.search.stopper import EarlyStopper
from tuner.stats import noise
from tuner.store.identity import HOST
from tuner.store.rows import StudyRow, Summary
from tuner.store.store import Store
from tuner.study.history import History
from tuner.study.policy import SearchThenConfirm, Step, Stop

#: Hosts differ if their baselines differ by more standard errors than this, and by this share.
DEVIATIONS, LEAST_OFF = 3.0, 0.02

#: A host is left out after this many launches of the baseline at least.
BASELINES = 2

_OVER = "the search is over; the host that began the study confirms the result"


class JoinedStore(Store):
    """The store of a host that joins: how a study stands is for the host that began it to write."""

    hostname = ""

    @staticmethod
    def of(url: str, hostname: str) -> JoinedStore:
        """Open the database of the study on the host of that name; errors as :meth:`open`."""
        store = JoinedStore.open(url, create=True)
        store.hostname = hostname
        return store

    def find(self, name: str) -> StudyRow | None:
        """Return the study of that name as one of this host."""
        row = super().find(name)
        return row and replace(row, identity={**row.identity, HOST: self.hostname})

    def update_spec(self, spec: StudySpec) -> None:
        """Leave the spec as it is."""

    def set_state(self, name: str, state: StudyState, reason: str) -> None:
        """Leave the state as it is."""

    def set_summary(self, name: str, summary: Summary) -> None:
        """Leave the summary as it is."""


class Joining(SearchThenConfirm):
    """A host that joins launches the baseline, to be compared by, then a part of the search.

    Args:
        store: The study's.
        say: Tells the user what becomes of this host.
    """

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        super().__init__()
        self._store, self._say = store, say

    def search(self, history: History) -> Step | Done:
        """Return the next launch of the search, or why the search is over.

        Raises:
            TunerError: The figures of this host are not those of the others: it is left out.
        """
        why = why_left_out(history)
        if why:
            text = f"{history.spec.machine.hostname} is left out: {why}"
            numbers = [record.number for record in launches_of(history)]
            exclusion = Exclusion(ExclusionKind.OTHER_HOST, text)
            self._store.exclude(history.spec.name, exclusion, numbers)
            raise TunerError(
                text,
                "its launches count no more: is anything else running here, or is the CPU hot?",
            )
        if history.simplifying or history.confirming:
            return Done("terminated")
        if why is None:
            return Step(Purpose.BASELINE, history.default)
        return super().search(history)

    def then(self, history: History, over: Done) -> Stop:  # noqa: ARG002
        """Return that nothing follows: the host that began the study makes the comparison."""
        self._say(_OVER)
        return Stop(_OVER)

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:
        """Return what may end a launch early; the baseline runs to its end."""
        return None if purpose is Purpose.BASELINE else super().race(history, purpose, setting)

    def _last(self, history: History) -> Suggestion | None:  # noqa: ARG002
        return None


def launches_of(history: History) -> list[LaunchRecord]:
    """Return the launches of this host that count."""
    host = history.spec.machine.hostname
    return [r for r in history.valid if r.machine.hostname == host]


def _times_s(record: LaunchRecord) -> list[float]:
    """Return the figures of a launch; of a baseline that was stopped, its projection."""
    ending = record.outcome.ending
    if isinstance(ending, Stopped) and record.purpose is Purpose.BASELINE and ending.bound_s > 0:
        return [ending.projection_s]
    return [sample.elapsed_s for sample in record.outcome.samples]


def why_left_out(history: History) -> str | None:
    """Say how the figures of this host differ from those of the others; empty: they do not.

    The medians of the baseline's launches are compared, with the noise of all launches that were
    repeated on one host. ``None``: another launch of the baseline has to tell.
    """
    if not any(record.purpose is Purpose.BASELINE for record in launches_of(history)):
        return None
    logs: dict[tuple[str, Setting], list[float]] = {}  # of the times, by host and setting
    for record in history.valid:
        if record.job is None:
            group = logs.setdefault((record.machine.hostname, record.setting), [])
            group += [math.log(time_s) for time_s in _times_s(record) if time_s > 0]
    baselines = {r.setting for r in history.records if r.purpose is Purpose.BASELINE}
    local: list[float] = []
    remote: list[float] = []
    for (hostname, setting), group in logs.items():
        if setting in baselines:
            (local if hostname == history.spec.machine.hostname else remote).extend(group)
    if not local or not remote:
        return ""
    sd, _ = noise.pooled(filter(None, logs.values()), noise.RUNS)
    local_log, remote_log = statistics.median(local), statistics.median(remote)
    se = sd * math.sqrt(1 / len(local) + 1 / len(remote))
    if abs(local_log - remote_log) <= max(DEVIATIONS * se, math.log1p(LEAST_OFF)):
        return ""
    if len(local) < BASELINES:
        return None
    objective = history.spec.objective
    local_figure, remote_figure = (
        figures.shown(objective, math.exp(log)) for log in (local_log, remote_log)
    )
    return f"the defaults take {local_figure} here and {remote_figure} on the other hosts"
