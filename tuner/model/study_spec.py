"""What the user asks for: where a job runs, what is compared, the study and its launches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tuner.model.knob import BASELINE, RANKS, Knob, RankCount, Setting


@dataclass(frozen=True)
class Machine:
    """What one host has for the processes that are started on it."""

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
        """CPUs within affinity and cgroup quota, at least 1."""
        quota = self.affinity_cpus if self.quota_cpus is None else max(1, round(self.quota_cpus))
        return max(1, min(self.affinity_cpus, quota))

    @property
    def affinity_cores(self) -> int:
        """Physical cores within affinity, at least 1: Open MPI counts so many slots."""
        share = min(1.0, self.affinity_cpus / max(1, self.logical_cpus))
        return max(1, min(self.affinity_cpus, math.ceil(self.physical_cores * share)))

    @property
    def usable_cores(self) -> int:
        """Physical cores within affinity and quota, at least 1: hardware threads share a core."""
        return min(self.cores, self.affinity_cores)

    def cores_per_rank(self, layout: Layout) -> int:
        """Return how many of the usable cores are for each rank of the fullest host, at least 1."""
        return max(1, self.usable_cores // layout.ranks_per_host)

    @property
    def shared_bytes(self) -> int:
        """The size that ``/dev/shm`` needs for MPI's messages and the batches of loader workers."""
        return max(1 << 29, (1 << 26) * self.cores)


#: Stands for the hosts of a study whose hosts change (``StudySpec.hosts_from``).
ANY_HOST = "any"

#: The host that a job runs on if the user names none: the one that the tool runs on.
LOCALHOST = "localhost"


@dataclass(frozen=True)
class Layout:
    """How many ranks there are, on which hosts, and how many on each (of one host: all)."""

    ranks: int
    hosts: tuple[str, ...] = (LOCALHOST,)
    by_host: tuple[int, ...] = ()
    room: int | None = None  # the most ranks that an mpirun starts on a host by itself, if known

    @property
    def slots(self) -> tuple[tuple[str, int], ...]:
        """Each host with its ranks, in the order of the ranks."""
        return tuple(zip(self.hosts, self.by_host or (self.ranks,), strict=True))

    @property
    def listed(self) -> str:
        """``h1:4,h2:4``, which all MPIs read."""
        return ",".join(f"{name}:{ranks}" for name, ranks in self.slots)

    @property
    def label(self) -> str:
        """``2x4``: 4 ranks on each of 2 hosts."""
        return f"{len(self.hosts)}x{self.ranks_per_host}"

    @property
    def oversubscribed(self) -> bool:
        """Whether a host has more ranks than an mpirun starts there by itself."""
        return self.room is not None and self.ranks_per_host > self.room

    @property
    def is_local(self) -> bool:
        """Whether no host is named: all ranks run where the tool runs."""
        return self.hosts == (LOCALHOST,)

    @property
    def is_single_process(self) -> bool:
        """Whether there is one rank, and no host is named: the program needs no launcher."""
        return self.is_local and self.ranks == 1

    @property
    def ranks_per_host(self) -> int:
        """Ranks on the fullest host."""
        return max(ranks for _, ranks in self.slots)

    def with_ranks_per_host(self, ranks: int) -> Layout:
        """Return the layout with this number of ranks on each of its hosts."""
        by_host = () if self.is_local else (ranks,) * len(self.hosts)
        return replace(self, ranks=ranks * len(self.hosts), by_host=by_host)


@dataclass(frozen=True)
class Carrier:
    """The mpirun or srun that starts a torchrun on each of several hosts."""

    kind: str
    mpirun: str  # absolute path
    version: str


@dataclass(frozen=True)
class LauncherInfo:
    """An mpirun on this host, with its version."""

    kind: str  # "openmpi", "mpich", "intelmpi", "srun", "torchrun"; "none": the program alone
    mpirun: str  # absolute path
    version: str  # "5.0.11"
    libmpi: str | None = None  # the library the ranks' mpi4py must load, absolute path
    extra_args: tuple[str, ...] = ()  # the user's own --mpirun-arg
    ssh: tuple[str, ...] = ()  # the command by which it reaches other hosts; empty: its default
    carrier: Carrier | None = None  # of torchrun, if there are several hosts


#: Units of time, in seconds: a figure in one of them is a time.
TIME_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

#: The key of a log that is its program's own clock, s.
CLOCK = "elapsed_time"

#: How the figure follows from the time of a running launch: it is the program's own clock at its
#: end, the launch's wall time, or the clock's pace; ``none``: it does not follow.
Clock = Literal["elapsed", "wall", "steady", "none"]


@dataclass(frozen=True)
class ObjectiveTraits:
    """What is known of a kind of objective before any launch; its class reads the figure."""

    argument: Literal["key", "pattern", ""] = "key"  #: What stands behind the colon: KIND:ARGUMENT.
    has_log: bool = True  #: It reads a file below ``{out}``, which ``--log`` names.
    #: The clock of its figure. "elapsed" holds for the key `CLOCK`, which is the usual one.
    clock: Clock = "elapsed"
    has_steady_state: bool = False  #: The argument may be ``steady``, for seconds an iteration.


#: The shipped kinds of objectives. One of another package has the defaults of the fields.
OBJECTIVES = {
    "logreport": ObjectiveTraits(has_steady_state=True),
    "pattern": ObjectiveTraits("pattern", clock="none"),
    "wall": ObjectiveTraits("", has_log=False, clock="wall"),
}


@dataclass(frozen=True)
class ObjectiveSpec:
    """How a launch's figure of merit is read.

    The *figure* is what the program prints, in the user's ``unit``. Studies store and compare its
    *cost*, of which less is better: a time in seconds, another figure as it is, and of a rate
    (``maximize``) the reciprocal, which is the time for a unit of work. So ratios stay ratios: half
    the cost is twice the rate.
    """

    kind: str = "logreport"
    key: str = CLOCK
    filename: str | None = None  # below {out}; None: "log", or for a pattern the output
    loss_key: str = ""  # empty: the first of the usual ones that the log has
    statistic: str = "last"  # or "steady": seconds an iteration after the warm-up
    pattern: str = ""  # a regular expression with a group for the figure
    unit: str = ""  # of the figure, as the user asked for it
    maximize: bool = False  # a larger figure is better

    @property
    def log(self) -> str:
        """The name of the log below ``{out}``, for objectives that read one."""
        return "log" if self.filename is None else self.filename

    @property
    def traits(self) -> ObjectiveTraits:
        """What is known of its kind."""
        return OBJECTIVES.get(self.kind, ObjectiveTraits())

    @property
    def clock(self) -> Clock:
        """How the figure follows from a launch's own time."""
        if self.traits.has_steady_state and self.statistic == "steady":
            return "steady"
        # What the key of another package's objective means is not known: a clock has no unit.
        is_other_figure = self.key != CLOCK or bool(self.unit) or self.maximize
        return "none" if self.traits.clock == "elapsed" and is_other_figure else self.traits.clock

    @property
    def is_time(self) -> bool:
        """True if a cost is in seconds."""
        return self.clock != "none" or self.unit in TIME_UNITS_S

    def cost(self, figure: float) -> float:
        """Return the cost of a figure above 0, by which settings are compared; see the class."""
        if self.maximize:
            return 1.0 / figure
        return figure * TIME_UNITS_S.get(self.unit, 1.0)

    def figure(self, cost: float) -> float:
        """Return the inverse of :meth:`cost`."""
        if self.maximize:
            return 1.0 / cost
        return cost / TIME_UNITS_S.get(self.unit, 1.0)


#: The default objective: the last ``elapsed_time`` of a LogReport, s.
LOGGED_TIME = ObjectiveSpec()


#: Whether settings are measured in a running job: wherever it allows that, always, never.
Live = Literal["auto", "on", "off"]

#: How the gain is confirmed: with as few launches as the evidence allows; by ranks alone; until the
#: interval is narrow, whatever that costs; not at all.
Confirm = Literal["auto", "exact", "more", "none"]

#: How the best setting and the baseline are launched to be compared: side by side (in slices by
#: turns) if nothing speaks against it; side by side in any case; in turn, one after the other.
Compare = Literal["auto", "side-by-side", "in-turn"]


@dataclass(frozen=True)
class Lesson:
    """The fastest settings of an earlier study, which are the first guesses of another one."""

    study: str
    fastest: tuple[Setting, ...]


@dataclass(frozen=True)
class StudySpec:
    """All that defines a study.

    ``command`` and ``job`` are argv templates with the placeholders ``{out}``,
    ``{python}`` and ``{knob_name}``; ``command`` is what is measured, ``job`` the whole job
    that an export runs (empty: the same as ``command``). ``knobs`` are resolved: each domain
    is cut to this machine and workload; ``fixed`` holds what ``--fix`` asked for.
    ``left_out`` says per knob why it is not tuned here. ``prepare`` is run before each launch.
    """

    name: str
    command: tuple[str, ...]
    launcher: LauncherInfo
    layout: Layout  # of the baseline; see `at`
    machine: Machine
    knobs: tuple[Knob, ...]
    fixed: Setting = BASELINE
    job: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    objective: ObjectiveSpec = LOGGED_TIME
    trials: int = 50
    budget_s: float | None = None  # of launches before the confirmation
    until: float = 0.01  # the search ends once going on is expected to gain less than this share
    precision: float = 0.02  # contenders are told apart as far as this share
    oversubscription: float | None = None  # how many times the cores may be asked for
    require: tuple[str, ...] = ()  # expressions that settings meet (tuner.knobs.requirements)
    confirm: Confirm = "auto"
    compare: Compare = "auto"
    warm_ups: int = 1
    max_time_s: float | None = None  # a launch that would take longer is stopped, as pruned
    trial_limit_s: float | None = None  # a launch that takes longer has failed
    stall_limit_s: float | None = 120.0  # a launch in which nothing happens for this long hangs
    seed: int = 0
    left_out: tuple[tuple[str, str], ...] = ()
    typed: tuple[str, ...] = ()  # the words after `tune` that asked for it; none from Python
    folder: str = ""  # where the program runs; empty: it does not matter (a shipped trainer)
    interpreter: str = ""  # what {python} stands for, if the command has it
    environment: tuple[tuple[str, str], ...] = ()  # the user's, allowlisted names only
    items: float | None = None  # how many a run (or an iteration, if that is timed) processes
    price_per_hour: float | None = None  # of all the hardware, in any currency
    sampler: str = "tune"  # of Optuna's study: ours, one of its own, or module:Class
    pruner: str = "race"
    terminator: str = "tune"
    live: Live = "auto"  # whether one running job measures many settings
    learn_from: str = "auto"  # the study that this one starts from, or auto, or none
    lesson: Lesson | None = None  # of that study, taken when this one began
    hosts_from: tuple[str, ...] = ()  # the command that prints which hosts there are
    spares: tuple[str, ...] = ()  # hosts that may take the place of one that is lost
    wait_for_children: bool = False  # a launch lasts until all that it started has ended
    prepare_limit_s: float = 600.0  # of the command before each launch
    input: str = ""  # the file that rank 0 reads as its standard input; empty: it has none
    global_batch: int | None = None  # samples of a step on all ranks together
    input_digest: str = ""  # the SHA-256 of its content; empty: it was not read
    programs: tuple[tuple[str, str], ...] = ()  # the files that the command runs, with SHA-256
    same_program: bool = False  # the study goes on though one of them was edited

    @property
    def rank_counts(self) -> Knob | None:
        """The knob whose values are numbers of ranks, if they are tuned."""
        return next((knob for knob in self.knobs if isinstance(knob.route, RankCount)), None)

    def at(self, setting: Setting) -> StudySpec:
        """Return the study with the layout that launches of a setting have."""
        ranks = setting.as_dict().get(RANKS) if self.rank_counts else None
        if not isinstance(ranks, int):
            return self
        return replace(self, layout=self.layout.with_ranks_per_host(ranks))


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
    waits_for_children: bool = False  # the launch lasts until all that it started has ended
    input: str = ""  # the file that is the launcher's standard input; empty: it has none
