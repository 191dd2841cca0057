"""The best settings of two stored studies, as ``tune compare --remeasure`` launches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.hosts.machine import this_machine
from tuner.launch.secrets import HIDDEN
from tuner.model import Setting, StudySpec
from tuner.model.errors import UsageError
from tuner.store.identity import DEFAULTS, ROUTES, identity
from tuner.store.store import Store
from tuner.study.tuning import runnable


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
    """Check that two studies of :func:`to_launch` are of two programs.

    Raises:
        UsageError: Both launch one program in one folder, as the older one may be gone.
    """
    before, after = (identity(spec) | dict.fromkeys((ROUTES, DEFAULTS)) for spec in specs)
    if before == after:
        raise UsageError(
            "--remeasure: both studies launch one command in one folder and environment",
            "keep the program of before in a folder or a Python environment of its own",
        )
