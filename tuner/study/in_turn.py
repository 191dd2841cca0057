"""Launches of one fixed setting, and of the best settings of two studies in turn on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tuner.hosts.machine import this_machine
from tuner.launch.secrets import HIDDEN, recorded_environment
from tuner.model import Purpose, Setting, StudySpec
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.search import Done
from tuner.stats.ranks import LOOKS
from tuner.store.identity import DEFAULTS, ROUTES, identity
from tuner.store.store import Store
from tuner.study.confirmation import FAILURES
from tuner.study.events import Event
from tuner.study.history import History
from tuner.study.policy import Policy, Step, Stop
from tuner.study.tuning import runnable, tune


@dataclass
class FixedSetting(Policy):
    """Launch what the study fixes until it has ended `number` times, or failed twice."""

    number: int = 1
    is_warm: bool = False  # it was launched since this began

    def best(self, history: History) -> Setting:
        """Return the fixed setting."""
        return history.spec.fixed

    def then(self, history: History, over: Done) -> Step | Stop:  # noqa: ARG002
        """Return one more launch of the fixed setting, or that there were enough."""
        launches = history.of(history.valid, history.pooling.canonical(history.spec.fixed))
        finished = sum(bool(record.outcome.samples) for record in launches)
        if finished >= self.number or len(launches) - finished >= FAILURES:
            return Stop(f"launched {finished} of {self.number} times")
        self.is_warm = True
        return Step(Purpose.RECORD, history.spec.fixed)


def to_launch(store: Store, spec: StudySpec, best: Setting, typed: tuple[str, ...]) -> StudySpec:
    """Return the study ``NAME-again``, which launches the best setting of a stored one here.

    Args:
        store: Where the studies are.
        spec: The stored study.
        best: Its best setting.
        typed: The words after ``tune`` that ask for it.

    Raises:
        UsageError: A secret is not stored, this host lacks the program or mpirun, or a study of
            the user has that name.
    """
    name, option = f"{spec.name}-again", f"--remeasure {spec.name}"
    for variable in (key for key, value in spec.environment if HIDDEN in value):
        raise UsageError(
            f"{option}: the stored value of {variable} hides a secret, so it cannot be set",
            "tune it again without that variable",
        )
    stored = store.find(name)
    if stored is not None and stored.spec.typed[:1] != typed[:1]:
        hint = f"`tune studies --delete {name}` deletes it"
        raise UsageError(f"{option}: there is a study {name}, which is not of tune compare", hint)
    machine = this_machine() if spec.layout.is_local else spec.machine
    spec = replace(runnable(spec, option), name=name, machine=machine, fixed=best, typed=typed)
    return replace(spec, confirm="none", live="off", learn_from="none", lesson=None)


def require_different(specs: Sequence[StudySpec]) -> None:
    """Raise ``UsageError`` if both launch one program in one folder: the older one may be gone."""
    before, after = (identity(spec) | dict.fromkeys((ROUTES, DEFAULTS)) for spec in specs)
    if before == after:
        raise UsageError(
            "--remeasure: both studies launch one command in one folder and environment",
            "keep the program of before in a folder or a Python environment of its own",
        )


def launch_in_turn(
    specs: Sequence[StudySpec], on_event: Sequence[Callable[[Event], None]], **place: Any
) -> Iterator[tuple[Sequence[list[float]], float]]:
    """Launch two studies of :func:`to_launch` in turn, A B, B A, …; what they had is deleted first.

    At each number of launches in :data:`LOOKS` it yields the costs of both, and the error that an
    interval of them may have.

    Raises:
        NothingMeasuredError: One of them fails; and what :func:`tuner.study.tune` raises.
    """
    costs = [list[float]() for _ in specs]
    for number in range(1, max(LOOKS) + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            spec, show, policy = specs[side], on_event[side], FixedSetting(number)
            if number > 1:
                spec = replace(spec, warm_ups=0)
            with _environment(spec):
                best = tune(spec, fresh=number == 1, on_event=show, policy=policy, **place).best
            costs[side] = [sample.elapsed_s for sample in best.samples] if best else []
            if len(costs[side]) < number:
                raise NothingMeasuredError(
                    f"{spec.name}: its setting fails", f"`tune show {spec.name}` says why"
                )
        if number in LOOKS:
            yield costs, LOOKS[number]


@contextmanager
def _environment(spec: StudySpec) -> Iterator[None]:
    """Give the variables that bear on speed the values that they had in the study."""
    before = dict(os.environ)
    for name in recorded_environment(before):
        del os.environ[name]
    os.environ.update(spec.environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
