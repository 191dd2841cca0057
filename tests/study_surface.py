"""A synthetic machine in place of the real one: a time for each setting, and faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from tuner.launch.request import MeasurementRequest
from tuner.model import (
    Effect,
    Ending,
    Failed,
    FailureKind,
    Finished,
    Flag,
    IntRange,
    Knob,
    Launch,
    LauncherInfo,
    LaunchRecord,
    Layout,
    Machine,
    Outcome,
    Progress,
    Purpose,
    Result,
    Setting,
    Stopped,
    StudySpec,
    Verdict,
)
from tuner.search.stopper import EarlyStopper
from tuner.store.rows import StudyRow
from tuner.store.store import Store
from tuner.study.history import History
from tuner.study.policy import SearchThenConfirm, Step
from tuner.study.tuning import tune

MACHINE = Machine("node1", "Some CPU", 4, 4, 4, None, 1, 8 << 30)

SPEC = StudySpec(
    name="surface",
    command=("train", "--out", "{out}"),
    launcher=LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11"),
    layout=Layout(2),
    machine=MACHINE,
    knobs=(
        Knob("omp_threads", IntRange(1, 4), Flag("-t"), default=4),
        Knob("iterator_workers", IntRange(1, 3), Flag("-j"), default=3),
    ),
    trials=6,
    confirm="none",
    compare="in-turn",
)

#: With the launches that prove it.
CONFIRMED = replace(SPEC, confirm="auto")

BEST = Setting.of({"omp_threads": 2, "iterator_workers": 1})

#: More than any study here takes.
MOST_LAUNCHES = 200


def surface(setting: Setting) -> float:
    """Seconds: the defaults and 4 threads with 3 workers take 4, the best setting takes 1."""
    chosen = setting.as_dict()
    threads, workers = chosen.get("omp_threads", 4), chosen.get("iterator_workers", 3)
    assert isinstance(threads, int)
    assert isinstance(workers, int)
    return 1.0 + abs(threads - 2) + 0.5 * (workers - 1)


def nearly_flat(setting: Setting) -> float:
    """Seconds: the same order as on the surface, but only repeats tell the best ones apart."""
    return 1.0 + 0.03 * (surface(setting) - 1.0)


#: From the launch to the zero of the program's own clock.
STARTUP_S = 1.0

ITERATIONS, ENTRIES = 100, 4


def log(elapsed_s: float) -> tuple[Progress, ...]:
    """What an even run of this length writes; each entry is seen as it is written."""
    shares = [number / ENTRIES for number in range(1, ENTRIES + 1)]
    return tuple(
        Progress(round(ITERATIONS * share), elapsed_s * share, STARTUP_S + elapsed_s * share)
        for share in shares
    )


class Killed(BaseException):
    """Stands for ``kill -9``: nothing of ours runs any more."""


@dataclass
class FakeRunner:
    """Runs launches on the surface and keeps what was asked of it."""

    time_s: Callable[[Setting], float | Ending] = surface
    #: Called with the count of launches before each one; may raise, or stop the study.
    before: Callable[[int], None] = lambda _: None
    effects: Callable[[Setting], Sequence[Effect]] = lambda _: ()
    settings: list[Setting] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    expected: list[int | None] = field(default_factory=list)

    def __call__(self, request: MeasurementRequest) -> Outcome:
        self.before(len(self.settings))
        self.settings.append(request.setting)
        self.launches.append(request.launch)
        self.expected.append(request.expected_iterations)
        request.launch.out_dir.mkdir(parents=True)
        if request.cancelled():
            return Outcome(Failed(FailureKind.INTERRUPTED, "asked to"), 0.1, None)
        return ran(
            self.time_s(request.setting),
            stopper=request.stopper,
            on_progress=request.on_progress,
            effects=tuple(self.effects(request.setting)),
        )


def ran(
    value: float | Ending,
    *,
    stopper: EarlyStopper | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    effects: tuple[Effect, ...] = (),
) -> Outcome:
    """A launch that takes so many seconds, or ends so; the stopper is shown its log as it grows."""
    if isinstance(value, Ending):
        return Outcome(value, 0.1, 1)
    entries = log(value)
    for number, entry in enumerate(entries, start=1):
        if on_progress is not None:
            on_progress(entry)
        if stopper is not None and number < ENTRIES:
            seen = [(each.iteration, each.elapsed_s) for each in entries[:number]]
            wall_s = STARTUP_S + entry.elapsed_s
            verdict = stopper(seen, wall_s, STARTUP_S)
            if isinstance(verdict, Stopped):
                return Outcome(verdict, wall_s, None, entries[:number], effects=effects)
    return Outcome(Finished(value, ITERATIONS), STARTUP_S + value, 0, entries, effects=effects)


def record(number: int, setting: Setting, purpose: Purpose, outcome: Outcome) -> LaunchRecord:
    started_at = "2026-01-02T03:04:05+00:00"
    return LaunchRecord(number, purpose, setting, (), {}, "", started_at, outcome, MACHINE)


def played(
    spec: StudySpec = SPEC,
    time_s: Callable[[Setting], float | Ending] = surface,
    *,
    so_far: History | None = None,
    effects: Callable[[Setting], Sequence[Effect]] = lambda _: (),
) -> History:
    """A study from where it stands to its end, without warm-ups and without a database."""
    history, course = so_far or History.judged(spec, ()), SearchThenConfirm()
    history = replace(history, spec=spec).with_records(history.records)
    while isinstance(step := course.next(history), Step):
        assert len(history.records) < MOST_LAUNCHES, "it does not end"
        outcome = ran(
            time_s(step.setting),
            stopper=course.race(history, step.purpose, step.setting),
            effects=tuple(effects(step.setting)),
        )
        made = record(len(history.records) + 1, step.setting, step.purpose, outcome)
        history = history.add(made)
    return history


CRASH = Failed(FailureKind.CRASHED, "exit status 1", "Traceback …")


def crash(_: Setting) -> Failed:
    return CRASH


def capped(knob: str, cap: int) -> Callable[[Setting], Sequence[Effect]]:
    """Effects of a knob whose values above ``cap`` come to ``cap``."""

    def effects(setting: Setting) -> Sequence[Effect]:
        asked = setting.as_dict().get(knob)
        if not isinstance(asked, int):
            return ()
        verdict = Verdict.CAPPED if asked > cap else Verdict.HONOURED
        return (Effect(knob, asked, min(asked, cap), verdict),)

    return effects


def overridden(knob: str, used: int) -> Callable[[Setting], Sequence[Effect]]:
    """Effects of a knob that the program overrides."""

    def effects(setting: Setting) -> Sequence[Effect]:
        asked = setting.as_dict().get(knob)
        if asked is None:
            return ()
        return (Effect(knob, asked, used, Verdict.OVERRIDDEN, f"the program always uses {used}"),)

    return effects


def events_of(kind: type, events: Sequence[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


# --- a study in a folder with a database ---------------------------------------------------


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'tune.db'}"


def trials_in(folder: Path) -> list[FrozenTrial]:
    return optuna.load_study(study_name=SPEC.name, storage=url_of(folder)).trials


def study_in(
    folder: Path, runner: Callable[..., Outcome], spec: StudySpec = SPEC, **options: Any
) -> Result:
    """Run a study to its end in the database of the folder."""
    return tune(spec, storage=str(folder / "tune.db"), run=runner, **options)


def records_in(folder: Path, *, detail: bool = True) -> list[LaunchRecord]:
    """The launches as the database holds them."""
    with Store.open(url_of(folder), create=False) as store:
        return store.launches(SPEC.name, detail=detail)


def row_in(folder: Path) -> StudyRow:
    """The study as the database holds it."""
    with Store.open(url_of(folder), create=False) as store:
        return store.load(SPEC.name)


def optuna_in(folder: Path) -> dict[int, FrozenTrial]:
    """The trials of the search by the launches that they tell of, as the records have them."""
    ours = [trial for trial in trials_in(folder) if "tune:record" in trial.user_attrs]
    told = {trial.user_attrs["launch"]: trial for trial in ours}
    assert len(told) == len(ours), "none is there twice"
    records = {r.number: r.trial for r in records_in(folder) if r.trial is not None}
    assert {launch: trial.number for launch, trial in told.items()} == records
    return told


def counted_in(folder: Path) -> set[int]:
    """The launches of the search that neither failed nor are excluded."""
    return {
        record.number
        for record in records_in(folder)
        if record.trial is not None
        and record.outcome.exclusion is None
        and not isinstance(record.outcome.ending, Failed)
    }
