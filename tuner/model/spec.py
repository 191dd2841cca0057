"""What is asked for: the study and its launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tuner.model.host import LauncherInfo, Layout, Machine
from tuner.model.knobs import BASELINE, Knob, Setting
from tuner.model.objective import LOGGED_TIME, ObjectiveSpec

#: Settings are measured in a running job: wherever it allows that, always, never.
Live = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class StudySpec:
    """All that defines a study.

    ``command`` and ``job`` are argv templates with the placeholders ``{out}``,
    ``{python}`` and ``{knob_name}``; ``command`` is what is measured, ``job`` the whole job
    that an export runs (empty: the same as ``command``). ``knobs`` are resolved: each domain
    is cut to this machine and workload; ``fixed`` holds what ``--fix`` asked for.
    ``left_out`` says per knob why it is not tuned here.
    """

    name: str
    command: tuple[str, ...]
    launcher: LauncherInfo
    layout: Layout
    machine: Machine
    knobs: tuple[Knob, ...]
    fixed: Setting = BASELINE
    job: tuple[str, ...] = ()
    objective: ObjectiveSpec = LOGGED_TIME
    trials: int = 50
    budget_s: float | None = None  # of launches before the confirmation
    until: float = 0.01  # the search ends once going on is expected to gain less than this share
    precision: float = 0.02  # contenders are told apart as far as this share
    oversubscription: float | None = None  # how many times the cores may be asked for
    confirm: bool = True
    warm_ups: int = 1
    trial_limit_s: float | None = None
    stall_limit_s: float | None = 120.0  # nothing happens for so long: it hangs
    seed: int = 0
    left_out: tuple[tuple[str, str], ...] = ()
    source: str = ""  # the study file, or how the spec came to be
    folder: str = ""  # where the program runs; empty: it does not matter (a shipped trainer)
    interpreter: str = ""  # what {python} stands for, if the command has it
    environment: tuple[tuple[str, str], ...] = ()  # the user's, allowlisted names only
    items: float | None = None  # that what is timed works through: a run, an iteration
    price_per_hour: float | None = None  # of all the hardware, in any currency
    live: Live = "auto"  # whether one running job measures many settings


@dataclass(frozen=True)
class Launch:
    """One command to run, ready: nothing in it is interpreted by a shell.

    ``env`` is the whole environment of mpirun; what a setting changes reaches the ranks
    through the wrapper in ``argv``. ``cwd`` is where the user first started ``tune``.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    out_dir: Path  # {out}: where the program writes its log
    folder: Path  # the trial's own folder: output.log, probe/, out/
    limit_s: float | None = None
