"""The catalogue: what can go wrong with a trial, and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tuner.model import FailureKind as Kind

FINISHED = "finished"
DISTURBED = "disturbed"
NOTHING = "nothing"  # no row: tune ended before there was a result

Moment = Literal["started", "asked", "progress", "result", "add", "tell", "reported"]


@dataclass(frozen=True)
class Fault:
    """One way to go wrong.

    ``act`` happens inside ``rank`` of the trainer at iteration ``at`` (5: after the last);
    ``strike`` is what the test does from outside, at a ``moment`` of the launch (``at`` that
    iteration, for ``progress``). ``expected`` are the kinds that the launch may be recorded
    as, ``also`` what else an MPI may make of it. ``ends`` is what the study's error says where
    it ends for that, and ``mend`` what is done before the same study is started again. With
    ``child`` the study runs in a process of its own, with ``disk`` that folder is a small disk.
    With a ``phase`` it happens to a running job that is retuned (:mod:`tests.faults.live_rows`).
    """

    name: str
    expected: tuple[str, ...]
    act: str = ""
    rank: int | Literal["all"] = 1
    at: int = 2
    strike: str = ""
    moment: Moment = "progress"
    ends: str = ""
    mend: str = ""
    child: bool = False
    terminal: bool = False
    disk: Literal["", "database", "outputs"] = ""
    second: bool = False  # a clean launch comes first
    limit_s: float | None = None
    stacks: bool = False  # they are kept of a launch that hangs
    noticed: bool = False  # a busy machine sets launches aside
    swept: bool = False  # what is left is ended by the next start
    wrapped: bool = False  # the user has a wrapper of his own, which does not exec
    phase: Literal["", "window", "switch"] = ""  # of a job that is retuned
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """True where other faults may happen to other launches of the same study."""
        alone = (self.strike, self.ends, self.child, self.disk, self.limit_s, self.wrapped)
        return not any((*alone, self.stacks, self.noticed))


def _inside(name: str, act: str, *expected: str, **more: object) -> Fault:
    return Fault(name, expected, act=act, **more)  # type: ignore[arg-type]


def _log(name: str, act: str, *expected: str, at: int = 5, second: bool = False) -> Fault:
    return Fault(name, expected or (Kind.BAD_LOG,), act=act, rank=0, at=at, second=second)


def _outside(name: str, strike: str, *expected: str, **more: object) -> Fault:
    fields = {"rank": "all", "strike": strike, "act": "holds", **more}
    return Fault(name, expected, **fields)  # type: ignore[arg-type]


def _tune(name: str, strike: str, moment: Moment, *expected: str, **more: object) -> Fault:
    fields = {"act": "holds" if moment == "progress" else "", **more}
    return _outside(name, strike, *expected, moment=moment, child=True, **fields)


#: MPICH's mpirun may end the other ranks and return 0: their log is too short then, or not there.
_HYDRA_ENDS = {"mpich": (Kind.WRONG_RESULT, Kind.NO_LOG)}

RANKS = (
    _inside("a rank is killed", "killed", Kind.CRASHED),
    _inside(
        "a rank is killed, its iterator worker keeps its output open",
        "killed beside a worker that keeps all",
        Kind.STALLED,
        Kind.CRASHED,
    ),
    _inside("rank 0 is killed", "killed", Kind.CRASHED, rank=0),
    _inside("all ranks are killed", "killed", Kind.CRASHED, rank="all"),
    _inside("a rank is killed before its first iteration", "killed", Kind.CRASHED, at=1),
    _inside("a rank is killed after its last iteration", "killed", Kind.CRASHED, at=5),
    _inside("a rank is stopped", "stopped", Kind.STALLED, stacks=True),
    _inside("a rank gets SIGTERM", "terminated", Kind.CRASHED),
    _inside("a rank aborts", "aborted", Kind.CRASHED),
    _inside("a rank divides by zero", "floating point", Kind.CRASHED),
    _inside("a rank segfaults", "reads nowhere", Kind.CRASHED),
    _inside("a rank reads beyond a file (SIGBUS)", "reads beyond the file", Kind.CRASHED),
    _inside("a rank raises", "raises", Kind.CRASHED),
    _inside("a rank raises, MPI waits", "raises unseen", Kind.STALLED, Kind.CRASHED),
    _inside("a rank exits 0 early", "exits 0", Kind.CRASHED, Kind.STALLED, also=_HYDRA_ENDS),
    _inside("a rank ends early", "exits 0 politely", Kind.CRASHED, Kind.STALLED, also=_HYDRA_ENDS),
    _inside("a rank exits 3", "exits 3", Kind.CRASHED),
    _inside("a rank calls MPI_Abort", "aborts all", Kind.CRASHED),
    _inside("a rank idles", "idles", Kind.STALLED),
    _inside("all ranks wait for each other", "receives nothing", Kind.STALLED, rank="all"),
    _inside("a rank loops for ever", "loops", Kind.LIMIT, limit_s=5.0),
    _inside("a rank ignores SIGTERM", "stubborn", Kind.STALLED),
    _inside("every rank ignores SIGTERM", "stubborn", Kind.STALLED, rank="all"),
    _inside("an iterator worker is killed", "loader killed", Kind.STALLED),
    _inside("an iterator worker is stopped", "loader stopped", Kind.STALLED),
    _inside("an iterator worker quits", "loader quits", Kind.STALLED),
)

LEFT_BEHIND = (
    _inside("a rank forks a daemon", "forks a daemon", FINISHED),
    _inside("a rank forks a daemon without the marker", "forks a bare daemon", FINISHED),
    _inside(
        "a rank forks a daemon that keeps its output open",
        "forks a daemon that keeps all",
        *(FINISHED, Kind.STALLED, Kind.CRASHED),
    ),
    _inside("every rank forks twenty daemons", "forks a crowd", FINISHED, rank="all"),
    _inside("a rank leaves temporary files", "litters", FINISHED),
)

SHORTAGES = (
    _inside("a rank is out of memory", "runs out of memory", Kind.OUT_OF_MEMORY),
    _inside("a rank is killed for its memory", "is killed for memory", Kind.OUT_OF_MEMORY),
    _inside("a rank cannot start threads", "runs out of threads", Kind.THREADS),
    _inside("a BLAS cannot start its threads", "has no BLAS threads", Kind.THREADS),
    _inside("a rank writes too large a file", "writes too large a file", Kind.CRASHED),
    _inside("a rank finds the shared memory full", "has no shared memory", Kind.OUT_OF_MEMORY),
    _inside("a rank finds a disk full that is not", "has no space", Kind.CRASHED),
    _inside("a rank is over its quota", "is over quota", Kind.DISK_FULL, ends="disk"),
    Fault(
        "a rank fills the disk of the outputs",
        (Kind.DISK_FULL, Kind.CRASHED),
        act="fills the disk",
        ends="disk",
        mend="free the disk",
        disk="outputs",
    ),
    _inside("a host is lost", "loses a host", Kind.LOST_HOST),
)

LOGS = (
    _log("half a log", "half a log"),
    _log("no log", "no log", Kind.NO_LOG),
    _log("an empty log", "empty log", Kind.BAD_LOG, Kind.NO_LOG),
    _log("another program's log", "log of another program"),
    _log("a log of other keys", "log of other keys"),
    _log("a log of a thousand brackets", "deep log"),
    _log("a log without a number", "log with no number"),
    _log("a log that ends at infinity", "log at infinity"),
    _log("a log whose clock goes backwards", "log runs backwards"),
    _log("the clock is set back while a rank runs", "clock set back", at=3),
    _log("a log that is a folder", "log is a folder"),
    _log("a log that is a pipe", "log is a pipe"),
    _log("a log without an end", "log is endless"),
    _log("a log that ends early", "short log", Kind.WRONG_RESULT, second=True),
    _log("a loss that is no number", "loss is nan", Kind.WRONG_RESULT, second=True),
    _log("a loss out of reach", "loss is huge", Kind.WRONG_RESULT, second=True),
)

LAUNCHER = (
    _outside("mpirun is killed", "kill mpirun", Kind.INTERRUPTED, Kind.CRASHED),
    _outside("mpirun is stopped", "stop mpirun", Kind.STALLED),
    _outside("mpirun gets SIGTERM", "terminate mpirun", Kind.INTERRUPTED, Kind.CRASHED),
    _outside(
        "the user's wrapper is killed", "kill a wrapper", Kind.CRASHED, Kind.STALLED, wrapped=True
    ),
    _outside("the supervisor is killed", "kill the supervisor", Kind.INTERRUPTED),
    _outside("the supervisor gets SIGTERM", "terminate the supervisor", Kind.INTERRUPTED),
    _outside(
        "the supervisor is killed before it was asked",
        "kill the supervisor at once",
        Kind.INTERRUPTED,
        moment="asked",
        act="",
    ),
    _outside(
        "the supervisor is stopped",
        "stop the supervisor",
        *(Kind.INTERRUPTED, Kind.STALLED, Kind.CRASHED, Kind.LIMIT, FINISHED),
    ),
    _outside(
        "the supervisor is killed, a daemon without the marker lives on",
        "kill the supervisor",
        Kind.INTERRUPTED,
        act="forks a bare daemon and holds",
    ),
)

BESIDE = (
    _outside("the same command beside it", "start the same command", FINISHED),
    _outside(
        "the same command beside it, and a rank is killed",
        "start the same command",
        Kind.CRASHED,
        act="holds and is killed",
    ),
    _outside("decoys with other markers", "start decoys", FINISHED),
    _outside(
        "a recycled pid",
        "recycle a pid, kill the supervisor",
        Kind.INTERRUPTED,
        act="forks a short daemon",
    ),
    _outside("a slow neighbour", "compute beside it", FINISHED, DISTURBED, noticed=True),
    _outside("the clock of tune is set back", "set the clock back", FINISHED),
)

TUNE = (
    _tune("tune is killed before the launch", "kill tune", "started", FINISHED),
    _tune("tune is killed during the launch", "kill tune", "progress", NOTHING),
    _tune(
        "tune and the supervisor are killed",
        "kill tune and the supervisor",
        "progress",
        NOTHING,
        act="forks a daemon and holds",
        swept=True,
    ),
    _tune("tune is killed before the result is kept", "kill tune", "result", NOTHING, FINISHED),
    _tune("tune is killed between result and database", "kill tune", "add", FINISHED),
    _tune("tune is killed between database and Optuna", "kill tune", "tell", FINISHED),
    _tune("tune is killed after its report", "kill tune", "reported", FINISHED),
    _tune("tune gets SIGTERM", "terminate tune", "progress", Kind.INTERRUPTED),
    _tune("tune gets SIGINT", "interrupt tune", "progress", Kind.INTERRUPTED),
    _tune("tune gets SIGINT twice", "interrupt tune twice", "progress", Kind.INTERRUPTED, NOTHING),
    _tune("the terminal hangs up", "hang up", "progress", Kind.INTERRUPTED, terminal=True),
    _tune("tune is stopped for a while", "stop tune for a while", "progress", FINISHED),
)

_ALONE: dict[str, object] = {"act": "", "moment": "result"}

DATABASE = (
    _outside("the database is locked for a moment", "lock for a moment", FINISHED, **_ALONE),
    _outside(
        "the database is locked for good",
        "lock the database",
        FINISHED,
        ends="locked",
        mend="unlock the database",
        **_ALONE,
    ),
    _outside(
        "the database is read-only",
        "make the database read-only",
        FINISHED,
        disk="database",
        ends="read-only|cannot be",
        mend="make the database writable",
        **_ALONE,
    ),
    _outside(
        "the database is replaced",
        "replace the database",
        FINISHED,
        ends="database",
        mend="bring the database back",
        **_ALONE,
    ),
    _outside(
        "the database is removed",
        "remove the database",
        FINISHED,
        ends="database",
        mend="bring the database back",
        **_ALONE,
    ),
    _outside(
        "the disk of the database is full",
        "fill the disk",
        FINISHED,
        disk="database",
        ends="full",
        mend="free the disk",
        **_ALONE,
    ),
)

FAULTS = (*RANKS, *LEFT_BEHIND, *SHORTAGES, *LOGS, *LAUNCHER, *BESIDE, *TUNE, *DATABASE)
BY_NAME = {fault.name: fault for fault in FAULTS}


def groups(faults: Sequence[Fault], most: int = 4) -> list[tuple[Fault, ...]]:
    """Faults that one study can have, of launches that follow each other."""
    plain = [fault for fault in faults if fault.plain]
    alone = [(fault,) for fault in faults if not fault.plain]
    return [*(tuple(plain[at : at + most]) for at in range(0, len(plain), most)), *alone]
