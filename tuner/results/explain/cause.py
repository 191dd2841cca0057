"""What can hold a run back, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


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
    DISK = "loader waits for the disk"
    LINK = "link saturated"
    EXCHANGE = "exchange between the ranks"
    STRAGGLER = "a rank that the others wait for"
    MEMORY = "memory is short"
    CPU = "nothing: bound by compute"
    GPU = "nothing: bound by the GPU"
    WAITING = "waiting for something that was not seen"
    UNKNOWN = "not known"


class Certainty(StrEnum):
    """How far the evidence carries."""

    CLEAR = "clear"
    LIKELY = "likely"
    GUESS = "a guess"


@dataclass(frozen=True)
class Remedy:
    """A knob that addresses a cause; ``direction`` is ``lower``, ``higher`` or ``another``."""

    knob: str
    direction: str
    tuned: bool = True  # by this study


@dataclass(frozen=True)
class Suspect:
    """A cause with the share of the ranks' time that it explains, and the evidence.

    ``subject`` says who or what, to stand behind the cause.
    """

    cause: Cause
    share: float
    evidence: tuple[str, ...] = ()
    subject: str = ""
    inside: bool = True  # from inside the ranks too, not from outside alone


@dataclass(frozen=True)
class Explanation:
    """Why a launch took as long as it did.

    ``others`` are what else was found, the greatest share first; ``gaps`` what could not be
    seen.
    """

    found: Suspect
    certainty: Certainty
    remedy: Remedy | None = None
    others: tuple[Suspect, ...] = ()
    gaps: tuple[str, ...] = field(default=())

    @property
    def cause(self) -> Cause:
        """The one thing."""
        return self.found.cause


def per_cent(share: float) -> str:
    """A share in a sentence: ``84 %``."""
    return f"{100 * share:.0f} %"
