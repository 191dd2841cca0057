"""Several hosts that work on one study in the database of a server.

Each measures for itself. Optuna's trials say who measures what: a running trial has the name of its
host, and a heartbeat as long as that is alive.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, fail_stale_trials
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from tuner.model import LaunchRecord, ObjectiveSpec, Purpose, Stopped, figures
from tuner.stats import estimates, noise
from tuner.store import database
from tuner.store.rows import RECORD
from tuner.study.reader import HOST

#: How often a host that waits for others looks again, s.
LOOK_S = 0.5

#: Hosts differ if their baselines differ by more standard errors than this, and by this share.
DEVIATIONS, LEAST_OFF = 3.0, 0.02

#: A host is left out after this many launches of the baseline at least.
BASELINES = 2


def is_shared(storage: BaseStorage) -> bool:
    """Whether other hosts may work on a study of this storage."""
    return isinstance(storage, BaseHeartbeat) and storage.get_heartbeat_interval() is not None


def ask(
    study: optuna.Study, distributions: dict[str, BaseDistribution] | None = None
) -> optuna.Trial:
    """The study's next trial; its heartbeat is ours to send (:meth:`Asked.beat`)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Heartbeat of storage")
        return study.ask(distributions)


def beat(trial: optuna.Trial) -> None:
    """Say that a trial's host is alive; its storage is shared."""
    assert isinstance(trial.storage, BaseHeartbeat)
    with suppress(OptunaError, SQLAlchemyError):
        trial.storage.record_heartbeat(trial._trial_id)


def fail_lost(study: optuna.Study) -> None:
    """Fail the running trials of hosts that are lost."""
    with warnings.catch_warnings():  # marked experimental
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        fail_stale_trials(study)


def is_elsewhere(trial: FrozenTrial, host: str) -> bool:
    """Whether a trial is run by another host than this."""
    if trial.state is not TrialState.RUNNING:
        return False
    if HOST in trial.user_attrs:
        return bool(trial.user_attrs[HOST] != host)
    # Each is named right after it began; one that never was is nobody's.
    begun = trial.datetime_start
    return begun is None or (datetime.now() - begun).total_seconds() < database.LOST_AFTER_S


def is_of_another(trial: FrozenTrial, host: str) -> bool:
    """Whether another host than this runs a trial, or has measured it."""
    if trial.state.is_finished():
        return RECORD in trial.user_attrs and trial.user_attrs.get(HOST, host) != host
    return is_elsewhere(trial, host)


def _times_s(record: LaunchRecord) -> list[float]:
    """The figures of a launch; of a baseline that was stopped, what it was heading for."""
    ending = record.outcome.ending
    if isinstance(ending, Stopped) and record.purpose is Purpose.BASELINE and ending.bound_s > 0:
        return [ending.projection_s]
    return [sample.elapsed_s for sample in record.outcome.samples]


def why_left_out(
    records: Sequence[LaunchRecord], host: str, objective: ObjectiveSpec
) -> str | None:
    """Why the figures of a host are not those of the others; empty if they are.

    The medians of the baseline's launches are compared, with the noise of all launches that were
    repeated on one host. ``None``: another launch of the baseline has to tell.
    """
    times: dict[tuple[str, str], list[float]] = {}
    for record in estimates.counted(records):
        logs = [math.log(each) for each in _times_s(record) if each > 0]
        if record.job is None and logs:
            where = record.machine.hostname, record.setting.to_json()
            times.setdefault(where, []).extend(logs)
    default = {r.setting.to_json() for r in records if r.purpose is Purpose.BASELINE}
    mine: list[float] = []
    others: list[float] = []
    for (at, setting), found in times.items():
        if setting in default:
            (mine if at == host else others).extend(found)
    if not mine or not others:
        return ""
    sd, _ = noise.pooled(times.values(), noise.RUNS)
    off = statistics.median(mine) - statistics.median(others)
    se = sd * math.sqrt(1 / len(mine) + 1 / len(others))
    if abs(off) <= max(DEVIATIONS * se, math.log1p(LEAST_OFF)):
        return ""
    if len(mine) < BASELINES:
        return None
    here, there = (
        figures.shown(objective, math.exp(statistics.median(each))) for each in (mine, others)
    )
    return f"the defaults take {here} here and {there} on the other hosts"
