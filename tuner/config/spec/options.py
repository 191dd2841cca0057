"""What the command line asks for of a study."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import Live


@dataclass(frozen=True)
class RunOptions:
    """What was typed; ``None`` or empty where it was not. Knobs as ``NAME=DOMAIN`` or ``NAME``."""

    ranks: int | None = None
    trials: int | None = None
    knobs: tuple[str, ...] = ()
    all_knobs: bool = False
    fixes: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    name: str | None = None
    mpirun: str | None = None
    launcher: str | None = None
    mpirun_args: tuple[str, ...] = ()
    seed: int | None = None
    trial_limit_s: float | None = None
    stall_limit_s: float | None = None  # infinity: none
    budget_s: float | None = None
    until: float | None = None
    precision: float | None = None
    oversubscribe: float | None = None
    confirm: bool | None = None
    warm_ups: int | None = None
    live: Live | None = None
    objective: str | None = None  # KIND[:ARG]
    log: str | None = None
    unit: str | None = None
    maximize: bool | None = None
    items: float | None = None
    price_per_hour: float | None = None
