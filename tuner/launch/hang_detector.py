"""Tells whether a job hangs, by its signs of life (pure).

Ranks that wait for each other spin, so CPU time alone is no sign of life. A process lives if it
computes outside the waiting code of the MPI, reads or writes, or wants a CPU and gets none. A job
lives while one of its processes does, or its log or its output grows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence

from tuner.hosts.activity import Activity
from tuner.model import Failed, FailureKind

#: A process that uses less than this share of a core is idle: it only looks at the time.
BUSY_SHARE = 0.02
#: Which code busy processes run is looked up (which stops a thread for a moment) only if nothing
#: else was seen for this share of the limit; until then each counts as computing.
TRUSTED_SHARE = 0.25
#: A process in state D (it waits for a disk, a network file system) gets this many limits.
KERNEL_TIMES = 10
#: An mpirun that lives on this long after its last rank has not noticed that they ended, s.
GONE_S = 10.0
#: Variables by which an mpirun learns of hosts: those of schedulers, and its own.
_HOSTS_VARIABLE = re.compile(
    r"(SLURM|PBS|LSB|COBALT|PALS)_.*|SGE_ROOT|PE_HOSTFILE|HYDRA_(HOST_FILE|RMK).*|.*_MCA_.*host.*"
)

CPU_S = 0.01  # the kernel counts in ticks of this length


class HangDetector:
    """Watches one job, which hangs if nothing happened for ``limit_s``.

    Silence counts only once so many ``ranks`` were seen (0: however many there are). ``computes``
    tells whether one of these processes, which use a CPU, runs other code than the MPI's waiting.
    """

    def __init__(
        self, limit_s: float, ranks: int, computes: Callable[[tuple[Activity, ...]], bool]
    ) -> None:
        self._limit_s = limit_s
        self._expected_ranks = ranks
        self._seen_ranks: set[int | None] = set()
        self._computes = computes
        self._last_activities: dict[tuple[str, int, int], Activity] = {}
        self._last_signs: tuple[object, ...] = ()
        self._last_look_s = -math.inf
        self._certain_s = 0.0  # when the last certain sign of life was seen
        self._alive_s = 0.0  # when the last sign was seen that may have been one
        self._last_rank_s: float | None = None  # when a rank was last there

    def look(
        self, now_s: float, signs: tuple[object, ...], activities: Sequence[Activity]
    ) -> Failed | None:
        """Look once at the live processes; return what is wrong, once it is certain.

        ``now_s`` only goes forward, and ``signs`` change when the log or the output grows.
        """
        ranks = [activity for activity in activities if activity.rank is not None]
        self._seen_ranks |= {activity.rank for activity in ranks}
        if ranks:
            self._last_rank_s = now_s
        watched = ranks or list(activities)  # if no rank is known, any work counts
        since_s = min(self._limit_s, now_s - self._last_look_s)
        least_s = max(1.5 * CPU_S, BUSY_SHARE * since_s)  # more than one tick
        has_moved, busy = False, []  # those that used a CPU since the last look, or wait for one
        processes = {(process.host, process.pid, process.started): process for process in watched}
        for identity, process in processes.items():
            before = self._last_activities.get(identity)
            has_moved |= before is None or process.transfers > before.transfers
            used_s = process.cpu_s - (0.0 if before is None else before.cpu_s)
            if process.state == "R" or used_s > least_s:
                busy.append(process)
        silent_s = now_s - self._certain_s
        # After a pause of our own we cannot say that nothing happened.
        if since_s >= self._limit_s or signs != self._last_signs or has_moved:
            self._certain_s = self._alive_s = now_s
        elif busy and silent_s < TRUSTED_SHARE * self._limit_s:
            self._alive_s = now_s
        elif busy and self._computes(tuple(busy)):
            self._certain_s = self._alive_s = now_s
        elif silent_s < KERNEL_TIMES * self._limit_s and any(p.state == "D" for p in watched):
            self._alive_s = now_s
        self._last_look_s, self._last_signs, self._last_activities = now_s, signs, processes
        if 0 < len(self._seen_ranks) < self._expected_ranks:
            return None  # ranks on other hosts may well do something
        idle_s = now_s - self._alive_s
        if self._last_rank_s not in {None, now_s} and idle_s >= min(GONE_S, self._limit_s):
            reason = f"all ranks ended, their launcher did not{_stopped_by_signal(activities)}"
            return Failed(FailureKind.CRASHED, reason)
        if idle_s < self._limit_s:
            return None
        reason = f"nothing happened for {self._limit_s:g} s: {_explain(activities, busy)}"
        return Failed(FailureKind.STALLED, reason)


def _explain(processes: Sequence[Activity], busy: Collection[Activity]) -> str:
    """Return in words which ranks do nothing; those that are busy only wait for the others."""
    ranks = {process.rank for process in processes if process.rank is not None}
    waiting = {process.rank for process in busy}
    idle = sorted(rank for rank in ranks if rank not in waiting)
    signals = _stopped_by_signal(processes)
    if not ranks:
        return f"no rank has started{signals}"
    if len(idle) == len(ranks):
        return ("all ranks are idle" if len(ranks) > 1 else f"rank {idle[0]} is idle") + signals
    if not idle:
        return f"all ranks wait for each other{signals}"
    hosts = sorted({process.host for process in processes if process.rank in idle and process.host})
    numbers = ", ".join(map(str, idle)) + (f" (on {', '.join(hosts)})" if hosts else "")
    text = f"rank {numbers} is idle" if len(idle) == 1 else f"ranks {numbers} are idle"
    return f"{text}, the others wait{signals}"


def _stopped_by_signal(processes: Sequence[Activity]) -> str:
    """Return in words which processes a signal has stopped; empty if it has stopped none."""
    stopped = [process.rank for process in processes if process.state == "T"]
    ranks = sorted({rank for rank in stopped if rank is not None})
    whose = [f"rank {rank}" for rank in ranks] + (["the launcher"] if None in stopped else [])
    return f"; a process of {' and '.join(whose)} is stopped by a signal" if whose else ""


def may_be_elsewhere(environ: Iterable[str]) -> bool:
    """Return whether ranks may run on other hosts, by the names of mpirun's environment."""
    return any(map(_HOSTS_VARIABLE.fullmatch, environ))
