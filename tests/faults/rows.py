"""The catalogue: what can go wrong with a trial, and what must come of it.

``FAULTS`` happen to a launch, ``LIVE`` are the same for a live job. What happens to ``tune`` itself
is in `campaigns/phases.py` (signals) and `campaigns/every_k` (``kill -9`` at every write).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tuner.model import FailureKind

CRASHED, STALLED, LIMIT = FailureKind.CRASHED, FailureKind.STALLED, FailureKind.LIMIT
MEMORY, THREADS = FailureKind.OUT_OF_MEMORY, FailureKind.THREADS
DISK_FULL, LOST_HOST = FailureKind.DISK_FULL, FailureKind.LOST_HOST
NO_LOG, BAD_LOG, WRONG_RESULT = FailureKind.NO_LOG, FailureKind.BAD_LOG, FailureKind.WRONG_RESULT
INTERRUPTED = FailureKind.INTERRUPTED
FINISHED = "finished"


@dataclass(frozen=True)
class JobFault:
    """One way to go wrong.

    ``act`` happens inside ``rank`` of the trainer at iteration ``at`` (5: after the last): an
    expression of `trainer.py`. ``expected`` are the kinds that the launch may be recorded as,
    ``also`` what else an MPI may make of it. ``ends`` is what the study's error says if it ends for
    that.
    """

    name: str
    expected: tuple[str, ...]
    act: str = ""
    rank: int | Literal["all"] = 1
    at: int = 2
    is_alone: bool = False  # in its study
    ends: str = ""
    second: bool = False  # a clean launch comes first
    limit_s: float | None = None
    phase: Literal["", "window", "switch"] = ""  # of a live job
    is_caught: bool = False  # another job is started with the setting
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """True if other faults may happen to other launches of the same study."""
        return not any((self.is_alone, self.ends, self.limit_s))


def _inside(name: str, act: str, *expected: str, **more: Any) -> JobFault:
    return JobFault(name, expected, act=act, **more)


def _log(name: str, act: str, *expected: str, at: int = 5, second: bool = False) -> JobFault:
    return JobFault(name, expected or (BAD_LOG,), act=act, rank=0, at=at, second=second)


def _outside(name: str, act: str, *expected: str) -> JobFault:
    return JobFault(name, expected, act=act, rank=0, is_alone=True)


#: MPICH's mpirun may end the other ranks and return 0: their log is too short then, or not there.
_HYDRA_ENDS = {"mpich": (WRONG_RESULT, NO_LOG)}
_EARLY = (CRASHED, STALLED)
_KILLED = "raise_signal(SIGKILL)"

RANKS = (
    _inside("a rank is killed", _KILLED, CRASHED),
    _inside("rank 0 is killed", _KILLED, CRASHED, rank=0),
    _inside("a rank is killed before its first iteration", _KILLED, CRASHED, at=1),
    _inside("a rank is killed after its last iteration", _KILLED, CRASHED, at=5),
    _inside("a rank is stopped", "raise_signal(SIGSTOP)", STALLED),
    _inside("a rank segfaults", "ctypes.string_at(0)", CRASHED),
    _inside("a rank raises", "fail(ValueError('no such data'))", CRASHED),
    _inside("a rank raises, MPI waits", "fail_unseen()", STALLED, CRASHED),
    _inside("a rank exits 0 early", "os._exit(0)", *_EARLY, also=_HYDRA_ENDS),
    _inside("a rank ends early", "loader.close(), sys.exit(0)", *_EARLY, also=_HYDRA_ENDS),
    _inside("a rank calls MPI_Abort", "world.Abort(7)", CRASHED),
    _inside("a rank idles", "idle()", STALLED),
    _inside("all ranks wait for each other", "world.recv()", STALLED, rank="all"),
    _inside(
        "rank 0 waits for what never comes", "world.allreduce(0), world.recv()", STALLED, rank=0
    ),
    _inside("a rank loops for ever", "idle(busy=True)", LIMIT, limit_s=5.0),
    _inside("every rank ignores SIGTERM", "idle(stubborn=True)", STALLED, rank="all"),
    _inside("a loader worker is killed", "os.kill(loader.pid, SIGKILL), loader.load()", STALLED),
    _inside("a loader worker is stopped", "os.kill(loader.pid, SIGSTOP), loader.load()", STALLED),
)

LEFT_BEHIND = (
    _inside("a rank forks a daemon without the marker", "daemon(bare=True)", FINISHED),
    _inside("a daemon keeps the output open", "daemon(keeps=True)", FINISHED, STALLED, CRASHED),
    _inside(
        "every rank forks twenty daemons", "[daemon() for _ in range(20)]", FINISHED, rank="all"
    ),
    _inside("a rank leaves temporary files", "Path(tempfile.mkdtemp(), 'big').touch()", FINISHED),
)

SHORTAGES = (
    _inside("a rank is out of memory", "limit_memory(), bytes(1 << 30)", MEMORY),
    _inside("a rank is killed for its memory", "print_and_die(OOM_KILLED, SIGKILL)", MEMORY),
    _inside("a BLAS cannot start its threads", "print_and_die(NO_THREADS, SIGINT)", THREADS),
    _inside("a rank finds the shared memory full", "fail(RuntimeError(NO_SHARED_MEMORY))", MEMORY),
    _inside("a rank finds a disk full that is not", "Path('/dev/full').write_bytes(b'x')", CRASHED),
    _inside(
        "a rank is over its quota",
        *("fail(OSError(EDQUOT, os.strerror(EDQUOT), '/data/snapshot'))", DISK_FULL),
        ends="disk",
    ),
    _inside("a host is lost", "print_and_die(LOST_HOST)", LOST_HOST),
)

LOGS = (
    _log("half a log", "log.write(json.dumps(log.entries)[:99])"),
    _log("no log", "log.path.unlink()", NO_LOG),
    _log("another program's log", "log.write('epoch 1 loss 0.25\\nepoch 2 loss 0.125\\n')"),
    _log("the clock is set back while a rank runs", "set_the_clock_back(log)", at=3),
    _log("a log that is a pipe", "log.path.unlink(), os.mkfifo(log.path)"),
    _log("a log without an end", "log.path.unlink(), log.path.symlink_to('/dev/zero')"),
    _log(
        "a log that ends early", "log.write(json.dumps(log.entries[:2]))", WRONG_RESULT, second=True
    ),
    _log("a loss out of reach", "log.change(**{'main/loss': 50.0})", WRONG_RESULT, second=True),
)

LAUNCHER = (
    _outside("mpirun is killed", "strike('mpirun', SIGKILL), idle()", INTERRUPTED, CRASHED),
    _outside("mpirun is stopped", "strike('mpirun', SIGSTOP), idle()", STALLED),
    _outside("mpirun gets SIGTERM", "strike('mpirun', SIGTERM), idle()", INTERRUPTED, CRASHED),
    _outside("the supervisor is killed", "strike('supervisor', SIGKILL), idle()", INTERRUPTED),
    _outside(
        "the supervisor is stopped",
        *("strike('supervisor', SIGSTOP)", INTERRUPTED, STALLED, CRASHED, LIMIT, FINISHED),
    ),
)

FAULTS = (*RANKS, *LEFT_BEHIND, *SHORTAGES, *LOGS, *LAUNCHER)

# --- of a running job; a setting that failed so is launched by itself, on a clean launch

#: There is no such moment in a window, or it is no other one there; and of the log of a running job
#: nobody reads the end.
_NEVER = {
    "a rank is killed before its first iteration",
    "a rank is killed after its last iteration",
    "half a log",
    "a log that ends early",
    "a loss out of reach",
}

#: What is raised while a rank switches is caught there: another job is started with the setting.
_CAUGHT = {"a rank raises", "a rank finds a disk full that is not", "a rank is over its quota"}

#: mpirun returns 0: the job has ended by itself, and is started once more for the setting.
_ENDED_ITSELF = {"mpich": (FINISHED,)}


def _live(fault: JobFault) -> Iterator[JobFault]:
    """The fault in a window, and, if something of the job does it, as a rank switches."""
    is_log = fault in LOGS
    if fault.name in _NEVER:
        return
    yield replace(
        fault,
        name=f"{fault.name}, in a window",
        phase="window",
        at=4,  # some iterations come before it
        expected=(FINISHED,) if is_log else fault.expected,
        also={} if fault.expected == (FINISHED,) else _ENDED_ITSELF,
        second=False,
    )
    if is_log:
        return
    is_caught = fault.name in _CAUGHT
    # No time of the program's own passes as it switches: the order is not answered.
    expected = (STALLED,) if fault.name == "a rank loops for ever" else fault.expected
    yield replace(
        fault,
        name=f"{fault.name}, as it switches",
        phase="switch",
        expected=(FINISHED,) if is_caught else expected,  # in the other job
        also=_ENDED_ITSELF,
        ends="" if is_caught else fault.ends,
        is_caught=is_caught,
    )


LIVE = tuple(live for fault in FAULTS for live in _live(fault))
BY_NAME = {fault.name: fault for fault in (*FAULTS, *LIVE)}

#: Some of a running job, for each change of the code; ``campaigns/faults.py --live`` has them all.
SOME = tuple(
    BY_NAME[name]
    for name in (
        "a rank is killed, in a window",
        "every rank forks twenty daemons, in a window",
        "a rank is stopped, in a window",
        "a rank raises, as it switches",
        "rank 0 waits for what never comes, in a window",
        "rank 0 waits for what never comes, as it switches",
    )
)


def groups(faults: Sequence[JobFault], most: int = 4) -> list[tuple[JobFault, ...]]:
    """Faults that one study can have, of launches that follow each other."""
    plain = [fault for fault in faults if fault.plain]
    alone = [(fault,) for fault in faults if not fault.plain]
    return [*(tuple(plain[at : at + most]) for at in range(0, len(plain), most)), *alone]
