"""A synthetic machine in place of the real one: a time for each setting, and faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    Layout,
    Machine,
    Outcome,
    Progress,
    Setting,
    StudySpec,
    Verdict,
)

MACHINE = Machine("node1", "Some CPU", 4, 4, 4, None, 1, 8 << 30)

SPEC = StudySpec(
    name="surface",
    command=("train", "--out", "{out}"),
    launcher=LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11"),
    layout=Layout(2),
    machine=MACHINE,
    knobs=(
        Knob("omp_threads", IntRange(1, 4), Flag("-t")),
        Knob("iterator_workers", IntRange(1, 3), Flag("-j")),
    ),
    trials=6,
)


def surface(setting: Setting) -> float:
    """Seconds: the defaults take 8, the best setting (omp 2, workers 1) takes 1."""
    if setting.is_baseline:
        return 8.0
    chosen = setting.as_dict()
    threads, workers = chosen.get("omp_threads", 4), chosen.get("iterator_workers", 3)
    assert isinstance(threads, int)
    assert isinstance(workers, int)
    return 1.0 + abs(threads - 2) + 0.5 * (workers - 1)


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

    def __call__(
        self,
        launch: Launch,
        *,
        spec: StudySpec,
        setting: Setting,
        expected_iterations: int | None,
        on_progress: Callable[[Progress], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        self.before(len(self.settings))
        self.settings.append(setting)
        self.launches.append(launch)
        self.expected.append(expected_iterations)
        launch.out_dir.mkdir(parents=True)
        if cancelled():
            return Outcome(Failed(FailureKind.INTERRUPTED, "asked to"), 0.1, None)
        value = self.time_s(setting)
        if isinstance(value, (Failed, Finished)):
            return Outcome(value, 0.1, 1)
        if on_progress is not None:
            on_progress(Progress(100, value))
        progress = (Progress(50, value / 2), Progress(100, value))
        return Outcome(
            Finished(value, 100), value + 1, 0, progress, effects=tuple(self.effects(setting))
        )


def crash(_: Setting) -> Failed:
    return Failed(FailureKind.CRASHED, "exit status 1", "Traceback …")


def capped(knob: str, cap: int) -> Callable[[Setting], Sequence[Effect]]:
    """Effects of a knob whose values above ``cap`` come to ``cap``."""

    def effects(setting: Setting) -> Sequence[Effect]:
        asked = setting.as_dict().get(knob)
        if not isinstance(asked, int):
            return ()
        if asked > cap:
            return (Effect(knob, asked, cap, Verdict.CAPPED),)
        return (Effect(knob, asked, asked, Verdict.HONOURED),)

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
