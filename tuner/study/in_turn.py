"""The best settings of two studies, launched in turn on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tuner.hosts.machine import this_machine
from tuner.launch.secrets import HIDDEN, recorded_environment
from tuner.model import Setting, StudySpec
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.stats.confirm import EXACT
from tuner.store.identity import identity
from tuner.store.store import Store
from tuner.study.events import Event
from tuner.study.loop import runnable, tune
from tuner.study.rounds import FixedSetting

#: The intervals are looked at after so many launches of each, and may err so much at that look.
LOOKS = tuple((look.bests, look.error or 0.0) for look in EXACT.two_sided)

#: How the launches of a study are called: ``NAME-again``.
_AGAIN = "-again"


def again(store: Store, spec: StudySpec, best: Setting, typed: tuple[str, ...]) -> StudySpec:
    """The study that launches the best setting of a stored one here, and nothing else.

    Args:
        store: The database, in which it will lie beside that study.
        spec: The stored study.
        best: Its best setting.
        typed: The words after ``tune`` that ask for it.

    Raises:
        UsageError: A secret is not stored, this host lacks the program or mpirun, or a study of
            the user has that name.
    """
    name, option = f"{spec.name}{_AGAIN}", f"--remeasure {spec.name}"
    for variable, value in spec.environment:
        if HIDDEN in value:
            raise UsageError(
                f"{option}: the stored value of {variable} hides a secret, so it cannot be set",
                "tune it again without that variable",
            )
    there = store.find(name)
    if there is not None and there.spec.typed[:1] != typed[:1]:
        raise UsageError(
            f"{option}: there is a study {name}, which is not of tune compare",
            f"`tune studies --delete {name}` deletes it",
        )
    return replace(
        runnable(spec, option),
        name=name,
        machine=this_machine() if spec.layout.is_local else spec.machine,
        fixed=best,
        confirm="none",
        live="off",
        budget_s=None,
        learn_from="none",
        lesson=None,
        typed=typed,
    )


def require_different(specs: Sequence[StudySpec]) -> None:
    """Refuse two studies that launch one program in one folder.

    What the first one measured is not there any more if the program was changed in between.

    Raises:
        UsageError: They do.
    """
    own = {"routes", "baseline"}  # these depend on what was tuned
    parts = [{k: v for k, v in identity(spec).items() if k not in own} for spec in specs]
    if parts[0] == parts[1]:
        raise UsageError(
            "--remeasure: both studies launch one command in one folder and environment, so it"
            " would measure one program twice",
            "keep the program of before in a folder or a Python environment of its own, and tune"
            " it there",
        )


def in_turn(
    specs: Sequence[StudySpec],
    *,
    storage: str | None,
    wait: bool,
    on_event: Sequence[Callable[[Event], None]],
) -> Iterator[tuple[Sequence[list[float]], float]]:
    """Launch two studies of :func:`again` in turn: A B, B A, A B, …

    What they have stored is deleted first. Errors are those of :func:`tuner.study.tune`, too.

    Yields:
        At each of :data:`LOOKS` the costs of both, and what an interval of them may err.

    Raises:
        NothingMeasuredError: One of them fails.
    """
    policies, costs = [FixedSetting() for _ in specs], [list[float]() for _ in specs]
    errors = dict(LOOKS)
    for number in range(1, max(errors) + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            spec, policy = specs[side], policies[side]
            policy.number = number
            with _environment(spec):
                found = tune(
                    replace(spec, warm_ups=0) if policy.is_warm else spec,
                    storage=storage,
                    fresh=number == 1,
                    wait=wait,
                    on_event=on_event[side],
                    policy=policy,
                )
            costs[side] = [s.elapsed_s for s in found.best.samples] if found.best else []
            if len(costs[side]) < number:
                raise NothingMeasuredError(
                    f"{spec.name}: its setting fails", f"`tune show {spec.name}` says why"
                )
        if number in errors:
            yield costs, errors[number]


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
