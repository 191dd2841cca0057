"""A whole study on a surface, search and confirmation, on a virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from benchmarks.replay.machine import VirtualMachine
from benchmarks.replay.surface import Surface
from benchmarks.replay.windows import LiveMachine
from tuner.knobs.core_budget import OVERSUBSCRIPTION
from tuner.model import (
    RANKS,
    Choice,
    Conclusion,
    Env,
    Failed,
    Finding,
    Finished,
    Knob,
    LauncherInfo,
    LaunchRecord,
    Layout,
    Machine,
    Purpose,
    RankCount,
    Result,
    Setting,
    StudySpec,
    StudyState,
)
from tuner.search.stopper import EarlyStopper
from tuner.study import stopping_rules
from tuner.study.findings import build
from tuner.study.history import History
from tuner.study.policy import Policy, SearchThenConfirm, Step, Stop

#: When virtual clocks begin.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Launched:
    """One launch of the replay, and what was called best after it."""

    record: LaunchRecord
    t_s: float  # the clock when it ended
    incumbent: Setting | None

    @property
    def elapsed_s(self) -> float:
        """How long it ran for certain, s; 0 if it failed."""
        ending = self.record.outcome.ending
        if isinstance(ending, Failed):
            return 0.0
        return ending.elapsed_s if isinstance(ending, Finished) else ending.bound_s


@dataclass(frozen=True)
class Study:
    """What the replay came to; ``best`` is what the search found, whatever the proof says."""

    launches: tuple[Launched, ...]
    best: Setting | None
    result: Result

    @property
    def searched(self) -> tuple[Launched, ...]:
        """The launches before the confirmation."""
        return tuple(x for x in self.launches if x.record.purpose is not Purpose.CONFIRM)

    @property
    def finding(self) -> Finding | None:
        """What the confirmation proves."""
        return self.result.finding

    @property
    def conclusion(self) -> Conclusion:
        """What it comes to."""
        return self.result.conclusion or Conclusion.NO_GAIN


def spec(
    surface: Surface, *, seed: int = 0, options: Mapping[str, object] | None = None
) -> StudySpec:
    """Return the study of a surface; ``options`` are other fields of its spec."""
    n = surface.cores
    made = StudySpec(
        name=surface.name,
        command=("replay", "{out}"),
        launcher=LauncherInfo("openmpi", "mpirun", "0"),
        layout=Layout(surface.ranks),
        machine=Machine("replay", surface.name, n, n, n, None, 1, 0),
        knobs=tuple(
            Knob(
                name,
                Choice(values),
                RankCount() if name == RANKS else Env((name.upper(),)),
                default=default,
                live=name not in surface.cold,
            )
            for (name, values), default in zip(surface.knobs.items(), surface.default, strict=True)
        ),
        warm_ups=0,
        seed=seed,
        live="off",
        compare="in-turn",  # as the recorded launches were made
        oversubscription=OVERSUBSCRIPTION if RANKS in surface.knobs else None,  # as in `tune`
    )
    return replace(made, **dict(options or {}))  # type: ignore[arg-type]


def play(
    surface: Surface,
    spec: StudySpec,
    seed: int,
    course: Policy | None = None,
    neighbours: float = 0.0,
) -> Study:
    """Search the surface, and confirm what was found.

    The seed says which of the recorded runs are drawn; others take the share ``neighbours`` of the
    machine while they are on.
    """
    course = course or SearchThenConfirm()
    draws = 7919 * seed + 13
    machine = (
        VirtualMachine(surface, draws, neighbours)
        if spec.live == "off"
        else LiveMachine(surface, draws, spec, neighbours)
    )
    history = History.judged(spec, (), baseline=surface.setting(surface.default))
    launches: list[Launched] = []
    while isinstance(step := course.next(history), Step):
        if not history.records:
            history = history.with_records(machine.warmed_up(step.setting))
        best = launches[-1].incumbent if launches else None
        race = course.race(history, step.purpose, step.setting)
        record = _record(step, race, history, machine, best)
        history = history.add(record)
        launches.append(Launched(record, machine.clock_s, course.best(history)))
        if history.is_hopeless:
            break
    reason = step.reason if isinstance(step, Stop) else f"{len(launches)} launches in a row failed"
    best = course.best(history)
    found = build(history, "", StudyState.FINISHED, reason, best)
    return Study(tuple(launches), best, found)


def _record(
    step: Step,
    race: EarlyStopper | None,
    history: History,
    machine: VirtualMachine,
    best: Setting | None,
) -> LaunchRecord:
    launch = stopping_rules.NextLaunch(step.purpose, step.setting, history, race)
    stopper = stopping_rules.stopper(launch)
    started = _EPOCH + timedelta(seconds=machine.clock_s)
    number = 1 + max((record.number for record in history.records), default=0)
    return LaunchRecord(
        number=number,
        purpose=step.purpose,
        setting=step.setting,
        argv=(),
        env={},
        folder="",
        started_at=started.isoformat(),
        outcome=machine.measure(number, step, stopper, history, best),
        machine=history.spec.machine,
    )
