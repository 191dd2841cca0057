"""The best settings of two studies, launched in turn on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tuner.hosts.machine import this_machine
from tuner.launch.secrets import HIDDEN, recorded_environment
from tuner.model import Setting, StudySpec
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.stats.confirm import EXACT
from tuner.store.identity import DEFAULTS, ROUTES, identity
from tuner.store.store import Store
from tuner.study.events import Event
from tuner.study.loop import runnable, tune
from tuner.study.rounds import FixedSetting

#: What an interval may err, by the number of launches of each after which it is looked at.
ERRORS = {look.bests: look.error or 0.0 for look in EXACT.two_sided}


def to_launch(store: Store, spec: StudySpec, best: Setting, typed: tuple[str, ...]) -> StudySpec:
    """``NAME-again``: launches the best setting of a stored study here, and nothing else.

    ``typed`` are the words after ``tune`` that ask for it.

    Raises:
        UsageError: A secret is not stored, this host lacks the program or mpirun, or a study of
            the user has that name.
    """
    name, option = f"{spec.name}-again", f"--remeasure {spec.name}"
    for variable in (key for key, value in spec.environment if HIDDEN in value):
        said = f"{option}: the stored value of {variable} hides a secret, so it cannot be set"
        raise UsageError(said, "tune it again without that variable")
    there = store.find(name)
    if there is not None and there.spec.typed[:1] != typed[:1]:
        hint = f"`tune studies --delete {name}` deletes it"
        raise UsageError(f"{option}: there is a study {name}, which is not of tune compare", hint)
    machine = this_machine() if spec.layout.is_local else spec.machine
    spec = replace(runnable(spec, option), name=name, machine=machine, fixed=best, typed=typed)
    return replace(spec, confirm="none", live="off", learn_from="none", lesson=None)


def require_different(specs: Sequence[StudySpec]) -> None:
    """Refuse two studies of one program in one folder: what the first measured may be gone.

    Raises:
        UsageError: They are.
    """
    one, other = (identity(spec) | dict.fromkeys((ROUTES, DEFAULTS)) for spec in specs)
    if one == other:
        raise UsageError(
            "--remeasure: both studies launch one command in one folder and environment",
            "keep the program of before in a folder or a Python environment of its own",
        )


def launch_in_turn(
    specs: Sequence[StudySpec], on_event: Sequence[Callable[[Event], None]], **place: Any
) -> Iterator[tuple[Sequence[list[float]], float]]:
    """Launch two studies of :func:`to_launch` in turn, A B, B A, …; what they had is deleted first.

    At each of :data:`ERRORS` it gives the costs of both, and what an interval of them may err.

    Raises:
        NothingMeasuredError: One of them fails; and what :func:`tuner.study.tune` raises.
    """
    costs = [list[float]() for _ in specs]
    for number in range(1, max(ERRORS) + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            spec, show, policy = specs[side], on_event[side], FixedSetting(number)
            if number > 1:
                spec = replace(spec, warm_ups=0)
            with _environment(spec):
                found = tune(spec, fresh=number == 1, on_event=show, policy=policy, **place)
            costs[side] = [s.elapsed_s for s in found.best.samples] if found.best else []
            if len(costs[side]) < number:
                why = f"`tune show {spec.name}` says why"
                raise NothingMeasuredError(f"{spec.name}: its setting fails", why)
        if number in ERRORS:
            yield costs, ERRORS[number]


@contextmanager
def _environment(spec: StudySpec) -> Iterator[None]:
    """Set the variables that bear on speed as the study had them."""
    before = dict(os.environ)
    for name in recorded_environment(before):
        del os.environ[name]
    os.environ.update(spec.environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
