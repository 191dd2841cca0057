"""A host that has joined a study: it measures a part of the search, for the host that began it.

It runs the same loop as that host, with another policy, and a store that leaves some things alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
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
from tuner.search.engine import Done, Suggestion
from tuner.search.stopper import EarlyStopper
from tuner.stats.noise import RUNS
from tuner.store.identity import HOST
from tuner.store.rows import StudyRow, Summary
from tuner.store.store import Store
from tuner.study.history import History
from tuner.study.pairing import cost
from tuner.study.policy import SearchThenConfirm, Step, Stop

#: Hosts are alike if the baseline takes at most this many times as long on one as on the other.
MOST_OFF = 1.1
#: They are alike, too, if the logarithms of its times differ by at most this many standard errors.
DEVIATIONS = 2.5
#: A host that is not like the others launches the baseline this often before it is left out.
BASELINES = 3

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
    """Launch the baseline, to compare this host with the others, then a part of the search."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        super().__init__()
        self._store, self._say = store, say

    def search(self, history: History) -> Step | Done:
        """Return the next launch of the search, or why the search is over.

        It is a `TunerError` if the figures of this host are not those of the others.
        """
        if history.simplifying or history.confirming:
            return Done("terminated")
        hostname = history.spec.machine.hostname
        baselines = [r for r in history.valid if r.purpose is Purpose.BASELINE]
        if not any(record.machine.hostname == hostname for record in baselines):
            return Step(Purpose.BASELINE, history.default)
        own_costs, other_costs = list[float](), list[float]()
        for record in baselines:
            if (cost := _projected_cost(record)) is not None:
                (own_costs if record.machine.hostname == hostname else other_costs).append(cost)
        if own_costs and other_costs and not _are_alike(own_costs, other_costs):
            if len(own_costs) < BASELINES:
                return Step(Purpose.BASELINE, history.default)
            medians = statistics.median(own_costs), statistics.median(other_costs)
            raise self._exclude(history, *medians)
        return super().search(history)

    def _exclude(self, history: History, own_cost: float, other_cost: float) -> TunerError:
        """Exclude the launches of this host, and return why."""
        hostname, objective = history.spec.machine.hostname, history.spec.objective
        own, other = (figures.shown(objective, cost) for cost in (own_cost, other_cost))
        times = f"the defaults take {own} here and {other} on the other hosts"
        text = f"{hostname} is left out: {times}"
        launched = [r.number for r in history.valid if r.machine.hostname == hostname]
        self._store.exclude(history.spec.name, Exclusion(ExclusionKind.OTHER_HOST, text), launched)
        hint = "its launches count no more: is anything else running here, or is the CPU hot?"
        return TunerError(text, hint)

    def after_search(self, history: History, over: Done) -> Stop:  # noqa: ARG002
        """Return that nothing follows: the host that began the study makes the comparison."""
        if not history.pending:  # else the loop asks again once the other hosts have measured
            self._say(_OVER)
        return Stop(_OVER)

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:
        """Return what may end a launch early; the baseline runs to its end."""
        return None if purpose is Purpose.BASELINE else super().race(history, purpose, setting)

    def _last_launch(self, history: History) -> Suggestion | None:  # noqa: ARG002
        return None


def _are_alike(own_costs: Sequence[float], other_costs: Sequence[float]) -> bool:
    """Return whether this host is as fast as the others, by the costs of the baseline."""
    log_ratio = math.log(statistics.median(own_costs) / statistics.median(other_costs))
    error = RUNS.sd * math.sqrt(1 / len(own_costs) + 1 / len(other_costs))
    return abs(log_ratio) <= max(math.log(MOST_OFF), DEVIATIONS * error)


def _projected_cost(record: LaunchRecord) -> float | None:
    """Return what a launch takes, or would have taken if it was stopped; ``None``: it failed."""
    ending = record.outcome.ending
    return ending.projection_s if isinstance(ending, Stopped) else cost(record)
