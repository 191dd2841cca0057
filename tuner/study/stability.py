"""How steady the machine was while a study measured, from its launches alone. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta

from tuner.hosts.quiet import QUIET_CORES
from tuner.model import Finished, LaunchRecord, Load, Purpose, Setting, wording
from tuner.stats import drift, estimates
from tuner.study.history import History
from tuner.study.interference import LEAST_SHARE, is_remeasured

#: After a longer pause than this the machine may be another one.
PAUSE = timedelta(minutes=10)

#: Launches that were not chosen by a time of their own setting.
_UNCHOSEN = frozenset({Purpose.CONFIRM, Purpose.RECORD})


def notes(plan: History) -> list[str]:
    """What a reader of the result must know of the machine; empty where it was quiet."""
    found = (
        *(_set_aside(plan), _windows_set_aside(plan), _remeasured(plan)),
        *(_loaded(plan), _drifted(plan), _moved(plan)),
    )
    return [note for note in found if note]


def excluded(records: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """The launches that something from outside spoiled."""
    return [r for r in records if r.outcome.exclusion is not None and not is_remeasured(r)]


def _set_aside(plan: History) -> str:
    spoiled = [r for r in excluded(plan.records) if r.outcome.window is None]
    were = "launch was" if len(spoiled) == 1 else "launches were"
    return _aside(spoiled, f"{were} excluded")


def _windows_set_aside(plan: History) -> str:
    spoiled = [r for r in excluded(plan.records) if r.outcome.window is not None]
    were = "window of a running job was" if len(spoiled) == 1 else "windows of running jobs were"
    return _aside(spoiled, f"{were} excluded")


def _aside(spoiled: Sequence[LaunchRecord], what: str) -> str:
    if not spoiled:
        return ""
    last = spoiled[-1]
    assert last.outcome.exclusion is not None
    lead = "" if len(spoiled) == 1 else "the last one, "
    return f"{len(spoiled)} {what} ({lead}number {last.number}: {last.outcome.exclusion.text})"


def _remeasured(plan: History) -> str:
    number = sum(is_remeasured(record) for record in plan.records)
    launches = wording.count(number, "earlier launch", "earlier launches")
    return f"{launches} not counted: --remeasure" if number else ""


def _loaded(plan: History) -> str:
    """What others did during the launches that count."""
    loads = [r.outcome.load for r in estimates.counted(plan.records) if r.outcome.load is not None]
    if not loads:
        return ""
    cpus = plan.spec.machine.affinity_cpus
    said = []
    usual = statistics.median(load.others_cores for load in loads)
    if usual >= max(QUIET_CORES, LEAST_SHARE * cpus):
        worst = max(loads, key=lambda load: load.others_cores)
        used = wording.cores(usual, cpus)
        said.append(f"other processes used {used} during a launch{wording.most_of_it(worst)}")
    hot = sum(load.hot for load in loads)
    if hot:
        launches = wording.count(hot, "launch", "launches")
        said.append(f"CPUs were slowed down for their temperature in {launches}")
    if any(_swapped(load) for load in loads):
        said.append("memory was swapped")
    return f"this machine was not quiet: {'; '.join(said)}" if said else ""


def _swapped(load: Load) -> bool:
    return load.swapped_bytes > 0


def _drifted(plan: History) -> str:
    groups: dict[Setting, list[tuple[float, float]]] = {}
    first = next((r for r in _own(plan) if r.purpose is Purpose.BASELINE), None)
    in_turn = [r for r in plan.confirming if r.purpose in _UNCHOSEN]
    recorded = [r for r in plan.valid if r.purpose is Purpose.RECORD]
    for record in (*([first] if first else []), *in_turn, *recorded):
        ending = record.outcome.ending
        if isinstance(ending, Finished) and ending.elapsed_s > 0:
            setting = plan.pooling.canonical(record.setting)
            groups.setdefault(setting, []).append((record.number, ending.elapsed_s))
    change = drift.drift(list(groups.values()))
    if change is None:
        return ""
    return (
        f"the machine drifted: the same setting took {wording.changed(change.ratio)} at the end"
        f" than at the start ({wording.count(change.launches, 'launch', 'launches')} compared)"
    )


def _own(plan: History) -> list[LaunchRecord]:
    """What was launched by itself; windows of running jobs are compared among themselves."""
    return [record for record in plan.valid if record.outcome.window is None]


def _moved(plan: History) -> str:
    """What a long pause changed."""
    launches = _own(plan)
    last = _last_stretch(launches)
    if last is None:
        return ""
    canonical = plan.pooling.canonical
    groups: dict[Setting, tuple[list[float], list[float]]] = {}
    for record in launches:
        ending = record.outcome.ending
        if isinstance(ending, Finished) and ending.elapsed_s > 0:
            pair = groups.setdefault(canonical(record.setting), ([], []))
            pair[record.number >= last.number].append(ending.elapsed_s)
    change = drift.moved(list(groups.values()))
    if change is None:
        return ""
    return (
        f"since {last.started_at[:16].replace('T', ' ')} UTC the same settings take"
        f" {wording.changed(change.ratio)} than before: earlier times may not compare; --remeasure"
        " leaves them out and measures anew"
    )


def _last_stretch(records: Sequence[LaunchRecord]) -> LaunchRecord | None:
    """The first launch after the last long pause; ``None`` where there was none."""
    for before, after in reversed(list(itertools.pairwise(records))):
        ended = datetime.fromisoformat(before.started_at) + timedelta(seconds=before.outcome.wall_s)
        if datetime.fromisoformat(after.started_at) - ended > PAUSE:
            return after
    return None
