"""The outcome of a launch, with all observations of it, its ranks and its host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tuner.model.knob import Setting, Value
from tuner.model.stages import Purpose
from tuner.model.study_spec import Machine

#: Columns of a host's track. Shares are between 0 and 1; `_cores` counts whole CPUs on average.
HOST_COLUMNS: Mapping[str, str] = {
    "user_cores": "CPUs busy with programs",
    "system_cores": "CPUs busy in the kernel",
    "steal_cores": "CPUs that the hypervisor gave to others",
    "iowait_cores": "CPUs idle while a disk was waited for",
    "others_cores": "CPUs used by processes outside of the trial",
    "runnable_threads": "threads that run or wait for a CPU",
    "throttled_share": "of the CPU time used or held back by a cgroup's quota, that held back",
    "io_pressure_share": "time in which some task waited for a disk (PSI)",
    "memory_pressure_share": "time in which some task waited for memory (PSI)",
    "network_bytes_per_s": "sent and received on the busiest interface (on lo counted once)",
    "gpu_share": "GPUs' utilisation as NVML says, mean over GPUs",
    "gpu_power_w": "GPUs' power, sum",
    "gpu_memory_share": "memory in use, by whatever, of the GPU where it is most",
}

#: Columns of a rank's track.
RANK_COLUMNS: Mapping[str, str] = {
    "own_user_cores": "CPUs that the rank's own process used in its program",
    "own_system_cores": "the same in the kernel",
    "own_queue_threads": "its threads that waited for a CPU, on average",
    "children_cores": "CPUs that its child processes (loader workers) used",
    "children_queue_threads": "their threads that waited for a CPU, on average",
}

#: What the main thread of a rank does, as the probe inside Python ranks samples it.
PHASES = ("loader", "exchange", "compute")


@dataclass(frozen=True)
class Track:
    """The samples over time of one host (``rank`` is ``None``) or of one rank on it.

    ``columns`` holds as many values a name as there are ``times_s`` (seconds since the launch, the
    end of each interval; the first begins with the launch). Values are means over the interval;
    ``None`` if one could not be read.
    """

    host: str
    rank: int | None
    times_s: tuple[float, ...]
    columns: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class PhaseShare:
    """How a rank's main thread spent its time in one phase, as shares of all its time."""

    rank: int
    phase: str  # one of PHASES
    share: float  # running + queued + blocked
    running: float  # on a CPU
    queued: float  # waiting for one
    blocked: float  # waiting for something else
    where: str = ""  # the line of most samples: train.py:31 allreduce


@dataclass(frozen=True)
class Telemetry:
    """All that was recorded of a launch over time."""

    tracks: tuple[Track, ...] = ()
    phases: tuple[PhaseShare, ...] = ()
    gaps: tuple[str, ...] = ()  # a sentence for whatever could not be recorded, with the reason
    cost_cores: float = 0.0  # the CPU that the recording itself used


@dataclass(frozen=True)
class Progress:
    """One entry of the program's own log; ``seen_s`` after the launch the log first showed it."""

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
    """What the ranks showed of one knob; ``observed`` is ``None`` if they showed nothing.

    If it is rough (child processes: a rank has others too, and samples miss some), the verdict is
    honoured from ``asked`` upwards and not observable below.
    """

    knob: str
    asked: Value
    observed: Value | None
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class RankView:
    """What was observed of one rank while it ran; ``None``: it could not be observed."""

    rank: int
    threads: int  # the most at once
    children: int  # the most at once
    affinity: tuple[int, ...]
    blas_threads: int | None = None
    opencv_threads: int | None = None
    opencv_loaded: bool = False  # by the rank itself or by one of its children
    world_size: int | None = None
    mpi_library: str | None = None
    pools: tuple[tuple[str, int], ...] = ()  # (library, threads)
    blas_limit: int | None = None  # the most threads the BLAS was built for
    reported: bool = False  # by the probe inside: a library that it does not name is not loaded
    allocator: str | None = None  # the library that malloc comes from
    mapped: bool = False  # the libraries that its processes have mapped could be read
    #: None of its processes has mapped an OpenMP runtime, a BLAS or an interpreter.
    ignores_thread_variables: bool = False
    packages: tuple[tuple[str, str], ...] = ()  # loaded in rank 0, with their versions
    uncaught: str = ""  # the exception that ended its Python


@dataclass(frozen=True)
class Observation:
    """What really ran: the ranks by ``/proc`` and by the probe inside them."""

    ranks: tuple[RankView, ...] = ()
    #: The names of processes that outlived the command and were killed, and whether they computed.
    left_running: tuple[tuple[str, bool], ...] = ()
    output_bytes: int | None = None  # how much the launch printed
    files: tuple[str, ...] = ()  # in its output folder, not empty, with # for each run of digits
    memory_bytes: int = 0  # the most on one host; what processes share counts for each of them
    gpu_memory_share: float = 0.0  # the most in use of one GPU
    written: tuple[str, ...] = ()  # files outside of its own folder that were open for writing


class FailureKind(StrEnum):
    """Why a launch gave no value."""

    CRASHED = "crashed"
    STALLED = "stalled"
    LIMIT = "over the limit"
    OUT_OF_MEMORY = "out of memory"
    THREADS = "threads exhausted"
    NO_LOG = "no log"
    BAD_LOG = "bad log"
    CUT_FIGURE = "figure cut"
    DOUBTED_FIGURE = "figure contradicted"
    WRONG_WORLD = "wrong world size"
    WRONG_RESULT = "wrong result"
    LOST_HOST = "lost host"
    INTERRUPTED = "interrupted"
    DISK_FULL = "disk full"
    LAUNCHER = "could not be launched"


#: Failures whose cause came from outside of the launch: its setting is launched again.
FROM_OUTSIDE = frozenset({FailureKind.INTERRUPTED, FailureKind.LOST_HOST, FailureKind.DISK_FULL})

#: Failures because something ran out: settings that ask for more of everything are not tried.
SHORTAGES = frozenset({FailureKind.OUT_OF_MEMORY, FailureKind.THREADS})


@dataclass(frozen=True)
class Reading:
    """A number that was read from a text: with the line around it, and its value.

    ``unit`` is the word beside it, ``s`` for ``1m 1.35s`` and ``0:01:25``; empty: there is none.
    """

    before: str
    text: str
    after: str
    value: float | None = None
    unit: str = ""

    @property
    def marked(self) -> str:
        """The line with the number marked: ``PWSCF : 1m «1.35»s WALL``."""
        return f"{self.before}«{self.text}»{self.after}".strip()


@dataclass(frozen=True)
class Finished:
    """The launch ran to its end and its log says how long it took."""

    elapsed_s: float
    iterations: int
    epochs: float | None = None  # how far the training got
    loss: float | None = None  # the last one of the training
    reading: Reading | None = None  # the text of the figure, if a program printed it for people


#: The rules of a stopper whose projection does not follow from the program's log.
ELAPSED, WHOLE_LAUNCH, CUT = "elapsed", "whole launch", "cut"

#: The rule that ends a launch because its pace is known well enough for a comparison.
PACE = "known pace"


@dataclass(frozen=True)
class Stopped:
    """The launch was ended before its end, by a rule: a bound and a projection, no value.

    ``bound_s`` is the time that it had taken for certain; ``projection_s``, with the interval
    ``low_s`` to ``high_s`` (``None``: open), is its whole time by the ``rule`` that stopped it. The
    search takes the projection for the cost, the verdict takes the bound. All are costs: seconds of
    the clock of the objective. A rule that has no log to go by says the bound for all of them, with
    the name `CUT`.
    """

    bound_s: float
    projection_s: float
    low_s: float
    high_s: float | None
    log_sd: float  # standard deviation of the projection's logarithm
    rule: str

    @property
    def is_forecast(self) -> bool:
        """Whether the projection follows from the program's log, and says more than the bound.

        Without a log the projection is the bound times a constant, which no user is shown.
        """
        is_by_log = self.rule not in {ELAPSED, WHOLE_LAUNCH, CUT}
        return is_by_log and self.projection_s > self.bound_s


@dataclass(frozen=True)
class Failed:
    """The launch gave no value."""

    kind: FailureKind
    reason: str
    log_tail: str = ""  # the end of its output
    doubted: Finished | None = None  # the figure that it gave, which the evidence contradicts


Ending = Finished | Stopped | Failed


@dataclass(frozen=True)
class Load:
    """What else the host did while a launch ran."""

    others_cores: float  # the CPU that processes outside of the trial used, on average
    busiest: str = ""  # the greatest of them: pid 6263 (python, user bob); empty if none was
    throttled_s: float = 0.0  # how long a cgroup's quota held CPUs back
    hot: bool = False  # a CPU was slowed down for its temperature
    swapped_bytes: int = 0  # to and from the swap


class ExclusionKind(StrEnum):
    """Why a launch does not count whatever its ending is."""

    REMEASURED = "remeasured"  # the user asked to measure anew
    LIVE_DISAGREES = "live disagrees"  # launches contradict the windows
    AFTER_SWITCH = "after a switch"  # a failure that the switch may have caused
    OTHER_HOST = "another host"  # its host is not as fast as the others of the study
    SIDE_BY_SIDE = "side by side"  # it cannot be compared with the launch at its side


@dataclass(frozen=True)
class Exclusion:
    """Why a launch is stored, but counts in no estimate; ``text`` is for the user alone."""

    kind: ExclusionKind
    text: str


@dataclass(frozen=True)
class Window:
    """Where a launch was measured that was no process of its own: a window of a running job.

    Its outcome is scaled to a full run. The job is the launch ``job`` of the study, whose own
    record is its first window; it was started with that record's setting.
    """

    job: int
    live: tuple[str, ...]  # the knobs that the job can change while it runs, sorted
    started_s: float  # what the start of the job took; 0.0 in all but its first window
    switch_s: float  # from the request to switch until every rank had read its values back
    discarded: int  # iterations thrown away after the switch, until they were steady
    iterations: int  # iterations measured
    pace_s: float  # seconds an iteration, their mean
    pace_se: float  # its standard error, relative
    at_s: float  # the middle of the window after the job's start


@dataclass(frozen=True)
class SideBySide:
    """How a launch ran side by side with another one: by turns, in slices."""

    other: int  # the number of the other launch
    slices: tuple[tuple[float, float], ...] = ()  # from and to, s after the pair began
    #: How many threads of others ran or waited for a CPU at the end of each slice, when both
    #: launches stood still; ``None``: that could not be read.
    neighbours: tuple[int | None, ...] = ()
    #: How often it was looked at in its slices, at how many looks none of its own threads ran or
    #: waited for a CPU, and at how many of these nor at the look before. On several hosts nobody
    #: looks, and nobody looks at the longer one once it runs alone.
    looks: int = 0
    idle_looks: int = 0
    long_idle_looks: int = 0


@dataclass(frozen=True)
class Outcome:
    """How a launch ended, with all observations of it."""

    ending: Ending
    wall_s: float  # without the turns of a launch side by side
    exit_code: int | None
    progress: tuple[Progress, ...] = ()
    observation: Observation = Observation()
    effects: tuple[Effect, ...] = ()
    load: Load | None = None
    exclusion: Exclusion | None = None  # why its time does not measure the setting
    telemetry: Telemetry | None = None
    window: Window | None = None  # of a running job; None: it was a launch of its own
    side_by_side: SideBySide | None = None  # the launch that took turns with it

    @property
    def samples(self) -> tuple[Finished, ...]:
        """What was measured: empty if the launch failed or was stopped."""
        return (self.ending,) if isinstance(self.ending, Finished) else ()


@dataclass(frozen=True)
class LaunchRecord:
    """A launch as it is stored, with its trial."""

    number: int  # 1, 2, … within the study
    purpose: Purpose
    setting: Setting  # as asked for
    argv: tuple[str, ...]
    env: Mapping[str, str]  # allowlisted names only
    folder: str
    started_at: str  # ISO 8601, UTC
    outcome: Outcome
    machine: Machine
    trial: int | None = None  # the number of its trial in the search; None: it has none there
    comes_to: Setting | None = None  # see `canonical`; it follows from all launches of the study

    @property
    def canonical(self) -> Setting:
        """The one setting that stands for all that come to the same, as far as launches show it."""
        return self.setting if self.comes_to is None else self.comes_to

    @property
    def job(self) -> int | None:
        """The number of the running job that it was a window of; ``None``: a launch of its own."""
        return None if self.outcome.window is None else self.outcome.window.job
