"""Every setting of a space in turn, in windows of running jobs or in launches of their own."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.config.spec import build_spec
from tuner.config.study_file import find_study_file
from tuner.knobs import space
from tuner.live.full_run import rescaled, usual_s
from tuner.model import (
    LOGGED_TIME,
    Choice,
    Knob,
    LaunchRecord,
    Live,
    Purpose,
    Setting,
    StudySpec,
    Value,
)
from tuner.search import Done
from tuner.stats import evidence
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study import tune
from tuner.study.history import History
from tuner.study.policy import Policy, Step, Stop


@dataclass(frozen=True)
class Sweep(Policy):
    """A policy (`tuner.study.policy.Policy`) that measures each setting ``runs`` times.

    Round by round, in another random order each time: what drifts meets all alike.
    """

    runs: int

    def best(self, history: History) -> Setting | None:
        """The setting with the lowest median so far."""
        found = evidence.best(evidence.measurements(history.valid, history.pooling.canonical))
        return found.setting if found else None

    def then(self, history: History, over: Done) -> Step | Stop:  # noqa: ARG002
        """Return the setting that comes next in the first round that is not done."""
        done: dict[Setting, int] = {}
        for record in history.valid:
            done[record.setting] = done.get(record.setting, 0) + 1
        for number in range(self.runs):
            order = list(space.points(history.spec.knobs))
            random.Random(f"{history.spec.seed}/{number}").shuffle(order)
            for setting in order:
                if done.get(setting, 0) <= number:
                    return Step(Purpose.SEARCH, setting)
        return Stop(f"every setting was measured {self.runs} times")


@dataclass(frozen=True)
class Swept:
    """What was measured: those that count, what all took, s, and how many jobs had windows."""

    records: tuple[LaunchRecord, ...]
    wall_s: float
    jobs: int

    def elapsed_s(self, others: Sequence[LaunchRecord] = ()) -> Mapping[Setting, list[float]]:
        """The figures of each setting, s a run; windows by the scale of what else was launched."""
        mine = {id(record) for record in self.records}
        scaled = rescaled((*self.records, *others), LOGGED_TIME)
        pairs = zip((*self.records, *others), scaled, strict=True)
        return _by_setting(
            (after, sample.elapsed_s)
            for before, after in pairs
            if id(before) in mine
            for sample in after.outcome.samples
        )

    def pace_s(self) -> Mapping[Setting, list[float]]:
        """Seconds an iteration of each setting, without evaluations and the first ones."""
        return _by_setting((record, _pace_s(record)) for record in self.records)


def _by_setting(
    figures: Iterable[tuple[LaunchRecord, float]],
) -> Mapping[Setting, list[float]]:
    found: dict[Setting, list[float]] = {}
    for record, figure in figures:
        found.setdefault(record.setting, []).append(figure)
    return found


def swept(spec: StudySpec, live: Live, values: Mapping[str, tuple[Value, ...]], runs: int) -> Swept:
    """Measure all combinations of these values of the spec's knobs.

    What was measured before under this name is not measured again: a sweep that was
    interrupted goes on. ``TUNE_STORAGE`` says where.
    """
    knobs = tuple(_only(knob, values[knob.name]) for knob in spec.knobs if knob.name in values)
    made = replace(spec, knobs=knobs, live=live, confirm="none", name=f"{spec.name}_{live}")
    tune(made, policy=Sweep(runs))
    with Store.open(resolve_url(None, os.environ), create=False) as store:
        records = store.launches(made.name, detail=False)
    counted = [r for r in records if r.purpose.stage.is_evidence]
    jobs = {r.outcome.window.job for r in counted if r.outcome.window is not None}
    kept = tuple(record for record in evidence.counted(records) if record.outcome.samples)
    return Swept(kept, sum(r.outcome.wall_s for r in counted), len(jobs))


def _pace_s(record: LaunchRecord) -> float:
    if record.outcome.window is not None:
        return record.outcome.window.pace_s
    found = usual_s(record.outcome.progress)
    assert found is not None, "the log of a launch has one entry"
    return found


def _only(knob: Knob, values: tuple[Value, ...]) -> Knob:
    return replace(knob, domain=Choice(values), when=())


def spec_of(study: str, ranks: int) -> StudySpec:
    """The spec of a shipped study, as the command line would make it."""
    file, source = find_study_file(study, cwd=Path.cwd())
    options = {"mpi_procs": ranks, "name": f"{study}_{ranks}", "oversubscription": 1e6}
    return build_spec(
        file=file,
        source=source,
        command=None,
        options=options,
        environ=os.environ,
        cwd=Path.cwd(),
    )
