"""The faults that can happen to a running job which is retuned: in a window, and as it switches.

They are those of :mod:`tests.faults.rows`, with the same kinds. A setting that failed so is set
aside and launched by itself, which is a clean launch; the next one gets a new job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tests.faults.rows import (
    BESIDE,
    BY_NAME,
    DATABASE,
    FINISHED,
    LAUNCHER,
    LEFT_BEHIND,
    LOGS,
    NOTHING,
    RANKS,
    SHORTAGES,
    TUNE,
    Fault,
)
from tuner.model import FailureKind as Kind

#: In the middle of a window: some iterations come before it.
AT = 4

#: There is no such moment in a window, or it is no other one there.
_NEVER = {
    "a rank is killed before its first iteration",
    "a rank is killed after its last iteration",
    "a rank is killed, its iterator worker keeps its output open",
    "the supervisor is killed before it was asked",
    "a slow neighbour",
}

#: Of the log of a running job nobody reads the end; but it must be possible to write it.
_LOGS = {
    "no log": (FINISHED,),
    "another program's log": (FINISHED,),
    "a log that is a folder": (Kind.CRASHED,),
    "a log that is a pipe": (FINISHED,),
    "a log without an end": (FINISHED,),
    "the clock is set back while a rank runs": (FINISHED,),
}

#: What is raised while a rank switches is caught there: the knob, not the program has failed.
_CAUGHT = {
    "a rank raises": (Kind.SWITCH,),
    "a rank finds a disk full that is not": (Kind.SWITCH,),
    "a rank is over its quota": (Kind.SWITCH,),
    "a rank fills the disk of the outputs": (Kind.SWITCH,),
    # No time of the program's own passes: the order is not answered.
    "a rank loops for ever": (Kind.STALLED,),
}

#: mpirun returns 0: the job has ended by itself, and is started once more for the setting.
_ENDED_ITSELF = {"mpich": (FINISHED,)}


def _in_a_window(fault: Fault) -> Fault:
    expected = _LOGS.get(fault.name, fault.expected)
    if fault.name == "tune is killed before the launch":  # the job runs by then
        expected = (NOTHING, FINISHED)
    also = {} if fault.expected == (FINISHED,) else _ENDED_ITSELF
    return replace(
        fault,
        name=f"{fault.name}, in a window",
        phase="window",
        at=AT,
        expected=expected,
        also=also,
        second=False,
    )


def _as_it_switches(fault: Fault) -> Fault:
    caught = _CAUGHT.get(fault.name)
    return replace(
        fault,
        name=f"{fault.name}, as it switches",
        phase="switch",
        expected=caught or fault.expected,
        also=_ENDED_ITSELF,
        ends="" if caught == (Kind.SWITCH,) and not fault.disk else fault.ends,
    )


def _live() -> Iterator[Fault]:
    logs = [fault for fault in LOGS if fault.name in _LOGS]
    others = (*RANKS, *LEFT_BEHIND, *SHORTAGES, *LAUNCHER, *BESIDE)
    for fault in (*others, *logs, *TUNE, *DATABASE):
        if fault.name in _NEVER:
            continue
        yield _in_a_window(fault)
        if fault in others or (fault in TUNE and fault.moment == "progress"):
            yield _as_it_switches(fault)


def _chosen(names: Iterable[str], phase: str) -> Iterator[Fault]:
    by_name = {fault.name: fault for fault in LIVE}
    yield from (by_name[f"{BY_NAME[name].name}, {phase}"] for name in names)


LIVE = tuple(_live())

#: Some, for each change of the code; ``python -m campaigns.faults --live`` has them all.
SOME = (
    *_chosen(("a rank is killed", "a rank forks a daemon", "a rank is stopped"), "in a window"),
    *_chosen(("a rank raises", "all ranks wait for each other"), "as it switches"),
)
