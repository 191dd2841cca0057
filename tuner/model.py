"""The nouns of the tool: frozen values that every other module passes around.

Nothing here has an effect or imports anything but the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

Value = int | str

#: The value of an environment knob that removes its variables instead of setting them.
UNSET = "unset"


# --- knobs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class IntRange:
    """The integers ``low..high``, both included; ``high="cores"`` is the usable cores."""

    low: int
    high: int | str


@dataclass(frozen=True)
class Choice:
    """Named alternatives, the order as the user gave it."""

    values: tuple[Value, ...]


Domain = IntRange | Choice


@dataclass(frozen=True)
class Env:
    """The value goes into each of these environment variables of every rank."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Flag:
    """The value reaches the program by argument.

    ``option`` (``--loaderjob``) is appended with the value where the command has no
    ``{knob}`` placeholder; with ``option=None`` the command must have the placeholder.
    """

    option: str | None = None


@dataclass(frozen=True)
class LauncherOption:
    """An abstract option (``bind_to``) that each launcher puts into its MPI's own words."""

    option: str


Route = Env | Flag | LauncherOption


@dataclass(frozen=True)
class Knob:
    """One thing that can be set for a launch.

    ``default`` is used for the baseline where the command cannot do without a value
    (a positional placeholder); ``None`` leaves the knob out of the baseline.
    ``gpu_values`` are the values that work only with a GPU for each rank.
    """

    name: str
    domain: Domain
    route: Route
    help: str = ""
    default: Value | None = None
    changes_numerics: bool = False
    live: bool = False
    gpu_values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Setting:
    """A value for each knob, sorted by knob name; hashable.

    The empty setting is the baseline: the user's environment untouched.
    """

    items: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> Setting:
        """Build a setting from a mapping or pairs, in any order."""
        return cls(tuple(sorted(dict(values).items())))

    def as_dict(self) -> dict[str, Value]:
        """The values by knob name."""
        return dict(self.items)

    @property
    def is_baseline(self) -> bool:
        """True where no knob is set."""
        return not self.items

    def to_json(self) -> str:
        """A canonical text form: the same setting gives the same text."""
        return json.dumps(dict(self.items), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Setting:
        """The inverse of :meth:`to_json`."""
        return cls.of(json.loads(text))

    def __str__(self) -> str:
        if self.is_baseline:
            return "defaults"
        return " ".join(f"{name}={value}" for name, value in self.items)


BASELINE = Setting()


# --- where it runs -----------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """What one host has for the processes started by this one."""

    hostname: str
    cpu_model: str
    logical_cpus: int
    physical_cores: int
    affinity_cpus: int
    quota_cpus: float | None
    numa_nodes: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """CPUs that may really be used: affinity and cgroup quota, at least 1."""
        quota = self.affinity_cpus if self.quota_cpus is None else max(1, round(self.quota_cpus))
        return max(1, min(self.affinity_cpus, quota))


@dataclass(frozen=True)
class Layout:
    """Which hosts, and how many ranks in all and on each."""

    ranks: int
    hosts: tuple[str, ...] = ("localhost",)

    @property
    def ranks_per_host(self) -> int:
        """Ranks on the fullest host."""
        return -(-self.ranks // len(self.hosts))


@dataclass(frozen=True)
class LauncherInfo:
    """An mpirun that was found and asked for its version."""

    kind: str  # "openmpi" or "mpich"
    mpirun: str  # absolute path
    version: str  # "5.0.11"
    libmpi: str | None = None  # the library the ranks' mpi4py must load, absolute path
    extra_args: tuple[str, ...] = ()  # the user's own --mpirun-arg


# --- what is asked for -------------------------------------------------------------------


@dataclass(frozen=True)
class ObjectiveSpec:
    """How a launch's figure of merit is read; smaller is better."""

    kind: str = "logreport"
    key: str = "elapsed_time"
    filename: str = "log"  # below {out}


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
    objective: ObjectiveSpec = ObjectiveSpec()
    trials: int = 50
    budget_s: float | None = None  # of launches before the confirmation
    until: float = 0.01  # the search ends once going on is expected to gain less than this share
    precision: float = 0.02  # contenders are told apart as far as this share
    oversubscription: float | None = None  # how many times the cores may be asked for
    confirm: bool = True
    warm_ups: int = 1
    trial_limit_s: float | None = None
    seed: int = 0
    left_out: tuple[tuple[str, str], ...] = ()
    source: str = ""  # the study file, or how the spec came to be
    folder: str = ""  # where the program runs; empty: it does not matter (a shipped trainer)
    interpreter: str = ""  # what {python} stands for, where the command has it
    environment: tuple[tuple[str, str], ...] = ()  # the user's, allowlisted names only


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


# --- what came of it ---------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """One entry of the program's own log; ``seen_s`` after the launch it was first seen there."""

    iteration: int
    elapsed_s: float
    seen_s: float | None = None


class Verdict(StrEnum):
    """Whether a knob took effect in the running ranks."""

    HONOURED = "honoured"
    CAPPED = "capped"
    OVERRIDDEN = "overridden"
    NOT_OBSERVABLE = "not observable"


@dataclass(frozen=True)
class Effect:
    """What was seen of one knob.

    ``observed`` is what a rank was seen with, ``None`` where nothing could be seen. Where it
    is a lower bound (child processes: a rank has others too, and not all are seen), the verdict
    is honoured from ``asked`` upwards and not observable below.
    """

    knob: str
    asked: Value
    observed: Value | None
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class RankView:
    """What was observed of one rank while it ran; ``None`` where it could not be seen."""

    rank: int
    threads: int  # the most seen at once
    children: int  # the most seen at once
    affinity: tuple[int, ...]
    blas_threads: int | None = None
    opencv_threads: int | None = None
    opencv_loaded: bool = False  # by the rank itself or by one of its Python children
    world_size: int | None = None
    mpi_library: str | None = None
    pools: tuple[tuple[str, int], ...] = ()  # (library, threads)
    blas_limit: int | None = None  # the most threads the BLAS was built for
    reported: bool = False  # from inside by the probe: what it does not name is not there


@dataclass(frozen=True)
class Observation:
    """What really ran: the ranks as seen from ``/proc`` and by the probe inside them."""

    ranks: tuple[RankView, ...] = ()


class FailureKind(StrEnum):
    """Why a launch gave no value."""

    CRASHED = "crashed"
    LIMIT = "over the limit"
    NO_LOG = "no log"
    BAD_LOG = "bad log"
    WRONG_WORLD = "wrong world size"
    SHORT = "stopped early"
    INTERRUPTED = "interrupted"
    LAUNCHER = "could not be launched"


@dataclass(frozen=True)
class Finished:
    """The launch ran to its end and its log says how long it took.

    ``epochs`` is how far the training got, where its log tells.
    """

    elapsed_s: float
    iterations: int
    epochs: float | None = None


@dataclass(frozen=True)
class Stopped:
    """The launch was ended as it could not win any more: a bound and a projection, no value.

    ``bound_s`` is what it had taken for certain; ``projection_s``, with the interval ``low_s``
    to ``high_s`` (``None``: open), is where it was going, by the ``rule`` that stopped it.
    """

    bound_s: float
    projection_s: float
    low_s: float
    high_s: float | None
    log_sd: float  # standard deviation of the projection's logarithm
    rule: str


@dataclass(frozen=True)
class Failed:
    """The launch gave no value; ``log_tail`` is the end of its output."""

    kind: FailureKind
    reason: str
    log_tail: str = ""


Ending = Finished | Stopped | Failed


@dataclass(frozen=True)
class Sample:
    """One measured window of a launch (today one a launch)."""

    elapsed_s: float
    iterations: int
    epochs: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What a launch came to, with all that was seen of it."""

    ending: Ending
    wall_s: float
    exit_code: int | None
    progress: tuple[Progress, ...] = ()
    observation: Observation = Observation()
    effects: tuple[Effect, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The measured windows: empty where the launch failed or was stopped."""
        ending = self.ending
        if isinstance(ending, Finished):
            return (Sample(ending.elapsed_s, ending.iterations, ending.epochs),)
        return ()


class Purpose(StrEnum):
    """What a launch was made for."""

    WARM_UP = "warm-up"
    BASELINE = "baseline"
    GUESS = "guess"
    SEARCH = "search"
    REPEAT = "repeat"
    CONFIRM = "confirm"
    RECORD = "record"


@dataclass(frozen=True)
class LaunchRecord:
    """A launch as it is kept: the row of our tables."""

    number: int  # 1, 2, … within the study
    purpose: Purpose
    setting: Setting  # as asked for
    argv: tuple[str, ...]
    env: Mapping[str, str]  # allowlisted names only
    folder: str
    started_at: str  # ISO 8601, UTC
    outcome: Outcome
    machine: Machine
    trial: int | None = None  # Optuna's trial number, once told


@dataclass(frozen=True)
class Measurement:
    """Every sample of one setting in one layout, and the estimate made of them (a median).

    ``elapsed_s`` is ``None`` where no launch of the setting came to its end: then ``stopped``
    says what is known of it, or else ``failure`` why nothing is.
    """

    setting: Setting
    samples: tuple[Sample, ...]
    elapsed_s: float | None
    launches: int
    failure: Failed | None = None
    stopped: Stopped | None = None

    @property
    def typical_s(self) -> float | None:
        """The estimate, or where the setting was going; ``None`` where nothing is known."""
        return self.elapsed_s if self.stopped is None else self.stopped.projection_s


class StudyState(StrEnum):
    """How far a study is."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class Cap:
    """Every larger value of the knob comes to ``value`` on this machine, as all launches show."""

    knob: str
    value: int
    reason: str = ""


Claim = Literal["faster", "slower", "no significant gain"]


@dataclass(frozen=True)
class Finding:
    """What launches in turn prove: the ratio is reference over best.

    The interval holds the true ratio in at least 95 % of studies; ``high`` is ``None`` where
    only the lower end is claimed ("at least").
    """

    ratio: float
    low: float
    high: float | None
    best_runs: int
    reference_runs: int
    claim: Claim

    @property
    def at_least(self) -> bool:
        """True where only the lower end is claimed."""
        return self.high is None


class Conclusion(StrEnum):
    """What a study comes to, once its best was launched in turn with the reference."""

    FASTER = "faster"
    NO_GAIN = "no significant gain"
    BASELINE_FAILS = "baseline fails"


@dataclass(frozen=True)
class Result:
    """What a study found.

    ``reference`` is what ``best`` is compared with: the baseline, or the first guess that
    worked where the baseline fails. ``ratio`` is reference over best: 2.0 is twice as fast,
    of the medians; what is proven of it says ``finding``. ``conclusion`` is ``None`` as long as
    the confirmation has not ended; ``export`` is the setting to hand over.
    Of ``trials``, ``settings_failed`` only failed and ``settings_stopped`` never came to their
    end; ``launches_measured`` are those of ``launches`` that count: no warm-ups, and none that
    failed, was stopped or broken off.
    """

    study: str
    storage: str
    state: StudyState
    reason: str  # why it ended
    best: Measurement | None
    baseline: Measurement | None
    reference: Measurement | None
    trials: int
    launches: int
    failures: int
    notes: tuple[str, ...] = field(default=())
    settings_failed: int = 0
    settings_stopped: int = 0
    launches_measured: int = 0
    caps: tuple[Cap, ...] = ()
    conclusion: Conclusion | None = None
    finding: Finding | None = None
    export: Setting | None = None
    search_s: float = 0.0  # wall time of the launches, those of the confirmation apart
    confirm_s: float = 0.0

    @property
    def ratio(self) -> float | None:
        """How many times faster the best is than the reference."""
        if self.best is None or self.reference is None:
            return None
        if self.best.elapsed_s is None or self.reference.elapsed_s is None:
            return None
        return self.reference.elapsed_s / self.best.elapsed_s


JsonDict = dict[str, Any]
