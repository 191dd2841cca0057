"""The causes that can hold a run back, and the knobs that address them, with a direction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tuner import knobs
from tuner.model import Choice, Flag, Knob, Setting, StudySpec, Value
from tuner.results.explain.case import Case


class Cause(StrEnum):
    """The one thing that held a run back."""

    OTHERS = "other processes on the host"
    HYPERVISOR = "other virtual machines"
    QUOTA = "throttled"
    OWN_THREADS = "cores oversubscribed by the ranks' own threads"
    PROCESSES = "cores oversubscribed by processes that the ranks started"
    WORKERS = "cores oversubscribed by the loader workers"
    OPENCV = "cores oversubscribed by OpenCV in the loader workers"
    CORES = "more work than cores"
    BINDING = "ranks bound to the same cores"
    LOADER = "loader starved"
    DISK = "waiting for the disk"
    EXCHANGE = "exchange between the ranks"
    STRAGGLER = "a rank that the others wait for"
    MEMORY = "memory is short"
    CPU = "bound by compute"
    GPU = "bound by the GPU"
    WAITING = "waiting for something that was not seen"
    UNKNOWN = "not known"


class Certainty(StrEnum):
    """How well the evidence supports a verdict."""

    CLEAR = "clear"
    LIKELY = "likely"
    GUESS = "a guess"


@dataclass(frozen=True)
class Remedy:
    """A knob that addresses a cause; ``direction`` is ``lower``, ``higher`` or ``another``."""

    knob: str
    direction: str
    tuned: bool = True  # whether this study tunes it


@dataclass(frozen=True)
class Suspect:
    """A cause with the share of the ranks' time that it explains, and the evidence.

    ``subject`` says who or what, to follow the cause.
    """

    cause: Cause
    share: float
    evidence: tuple[str, ...]
    subject: str = ""

    def __str__(self) -> str:
        subject = f" ({self.subject})" if self.subject else ""
        return f"{self.cause}{subject}"


@dataclass(frozen=True)
class Diagnosis:
    """Why a launch took as long as it did.

    ``others`` are the lesser causes, the greatest share first; ``gaps`` say what could not be
    recorded; ``case`` is what the rules looked at.
    """

    suspect: Suspect
    certainty: Certainty
    remedy: Remedy | None
    others: tuple[Suspect, ...]
    gaps: tuple[str, ...]
    case: Case

    @property
    def cause(self) -> Cause:
        """Return what held the run back most."""
        return self.suspect.cause


def per_cent(share: float) -> str:
    """Return a share for a sentence: ``84 %``."""
    return f"{100 * share:.0f} %"


LOWER, HIGHER, ANOTHER = "lower", "higher", "another"

#: The knobs that bear on each cause, the one that helps most often first.
REMEDIES: dict[Cause, tuple[tuple[str, str], ...]] = {
    Cause.OWN_THREADS: (("omp_threads", LOWER),),
    Cause.WORKERS: (("iterator_workers", LOWER), ("opencv_threads", LOWER)),
    Cause.OPENCV: (("opencv_threads", LOWER),),
    Cause.BINDING: (("bind_to", ANOTHER), ("cores_per_rank", ANOTHER), ("omp_threads", LOWER)),
    Cause.LOADER: (("iterator_workers", HIGHER), ("prefetch", HIGHER)),
    Cause.DISK: (("prefetch", HIGHER), ("iterator_workers", HIGHER)),
    Cause.EXCHANGE: (
        ("communicator", ANOTHER),
        ("ompi_btl", ANOTHER),
        ("ompi_allreduce", ANOTHER),
        ("mpich_allreduce", ANOTHER),
        ("impi_allreduce", ANOTHER),
        ("nccl_algo", ANOTHER),
        ("fp16_gradients", ANOTHER),
    ),
    Cause.MEMORY: (("iterator_workers", LOWER), ("malloc_arenas", LOWER)),
}


def remedy(
    cause: Cause, setting: Setting, spec: StudySpec, case: Case, *, idle: bool
) -> Remedy | None:
    """Return the first knob that can still be turned the right way; ``None``: no knob helps.

    The knobs of the study come first, then others that reach its program by environment or
    launcher. A job that is bound by compute can use more threads if cores were ``idle``.
    """
    rows = REMEDIES.get(cause, ())
    if cause is Cause.CPU and idle:
        rows = (("omp_threads", HIGHER),)
    by_name = {knob.name: knob for knob in spec.knobs}
    values = setting.as_dict()
    for name, direction in rows:
        if name in by_name and has_value_in_direction(by_name[name], values.get(name), direction):
            return Remedy(name, direction)
    for name, direction in rows:
        if name not in by_name and _reaches(knobs.knob(name), spec, case):
            return Remedy(name, direction, tuned=False)
    return None


def _reaches(knob: Knob, spec: StudySpec, case: Case) -> bool:
    """Return whether a knob that the study does not have can do something in its program."""
    if isinstance(knob.route, Flag) or ("gpu" in knob.needs and not spec.machine.gpus):
        return False
    reported_views = [view for view in case.views if view.reported]
    uses_mpi = not reported_views or any(view.mpi_library for view in reported_views)
    return not knob.launchers or (spec.launcher.kind in knob.launchers and uses_mpi)


def has_value_in_direction(knob: Knob, value: Value | None, direction: str) -> bool:
    """Return whether the domain has a value in this direction; true of a value that is unset."""
    domain = knob.domain
    if isinstance(domain, Choice):
        values = domain.values
    else:
        # Of the bound "cores" it is only known that it may be larger than the low one.
        values = (domain.low, domain.high if isinstance(domain.high, int) else domain.low + 1)
    return any(other != value and lies_in_direction(value, other, direction) for other in values)


def lies_in_direction(value: Value | None, other: Value | None, direction: str) -> bool:
    """Return whether the other value lies in this direction; true if that cannot be told."""
    if direction == ANOTHER or not isinstance(value, int) or not isinstance(other, int):
        return True
    return other < value if direction == LOWER else other > value
