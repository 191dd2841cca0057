"""Ranks that wait: for data, for the disk, for each other, for the network."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from tuner.model import wording
from tuner.results.explain.case import Case, RankFigures
from tuner.results.explain.cause import Cause, Suspect, per_cent
from tuner.results.explain.cpu import ONE_THREAD

#: Of the time, from which waiting for a disk is what the ranks wait for.
DISK = 0.1

#: A rank for which the others wait this much more of their time is waited for: in three seconds
#: with 70 looks chance alone moves a share of 0.2 by 0.05.
LATE = 0.15
#: … and its own is at the most this part of theirs.
LATE_PART = 0.6

#: A rank that waits in MPI burns a core: one that uses so little beside such others sleeps.
ASLEEP_PART = 0.6
SPINS = 0.7


def suspects(case: Case) -> Iterator[Suspect]:
    """Name what the ranks wait for, other than a CPU."""
    disk = _disk(case)
    late = straggler(case)
    candidates = [
        disk,
        _loader(case, disk.share if disk else 0.0),
        late,
        _exchange(case, late.share if late else 0.0),
        _waiting(case, disk.share if disk else 0.0),
    ]
    yield from filter(None, candidates)
    memory = case.get("memory_pressure_share")
    if memory > 0:
        said = [f"some task waited for memory {per_cent(memory)} of the time"]
        swapped = case.load.swapped_bytes if case.load else 0
        said += [f"{swapped / 1e6:.0f} MB went to or came from the swap"] if swapped else []
        yield Suspect(Cause.MEMORY, memory, tuple(said))


def _disk(case: Case) -> Suspect | None:
    idle = min(1.0, case.get("iowait_cores") / max(1, case.cores))
    pressure = max(case.get("io_pressure_share"), idle)
    blocked = case.phase("loader", "blocked") + case.phase("compute", "blocked")
    share = min(pressure, blocked if case.probed else _asleep(case))
    if share < DISK:
        return None
    said = (f"some task waited for a disk {per_cent(pressure)} of the time", *_loading(case))
    return Suspect(Cause.DISK, share, said)


def _loader(case: Case, disk: float) -> Suspect | None:
    blocked = case.phase("loader", "blocked") * (1 - case.worker_queue_share)
    ran = case.phase("loader", "running")
    share = ran + blocked - disk
    if share <= 0:
        return None
    workers = wording.count(case.workers, "child process", "child processes")
    if ran > blocked and not case.workers:
        said = "the ranks load in their own main threads"
    elif ran > blocked:
        said = f"their main threads ran meanwhile, to receive what {workers} loaded"
    else:
        idle = f"{case.idle_cores:.1f} of {case.cores} were idle"
        said = f"{workers} used {case.total('children_cores'):.2g} cores; {idle}"
    return Suspect(Cause.LOADER, share, (*_loading(case), said), case.where("loader"))


def _loading(case: Case) -> Iterator[str]:
    share = case.phase("loader")
    if share > 0:
        said = f"the ranks waited for data or loaded it {per_cent(share)} of the time"
        yield f"{said} ({case.where('loader')})"


def _exchange(case: Case, late: float) -> Suspect | None:
    if not case.probed:
        return None
    ranks = len(case.probed)
    waited = case.phase("exchange", "running", "blocked")
    # Those who wait for one rank do not wait for the network.
    share = waited * (1 - case.rank_queue_share) - late * (ranks - 1) / ranks
    if share <= 0:
        return None
    where = case.where("exchange")
    said = [f"the ranks exchanged {per_cent(case.phase('exchange'))} of the time ({where})"]
    if "network_bytes_per_s" in case.host:
        said.append(f"{case.get('network_bytes_per_s') / 1e6:.3g} MB/s over the network")
    return Suspect(Cause.EXCHANGE, share, tuple(said), where)


def _asleep(case: Case) -> float:
    """Return the share of a rank's time in which no thread of it ran or wanted to, on average.

    CPU time of the job that belongs to no rank may be any rank's: it counts as theirs.
    """
    asleep = sum(max(0.0, 1 - rank.own_runnable) for rank in case.recorded)
    return max(0.0, asleep - case.unassigned_cores) / max(1, len(case.recorded))


def _waiting(case: Case, disk: float) -> Suspect | None:
    """Suspect whatever the ranks sleep for in their own code, if no other reason is known."""
    share, where = _asleep(case), case.where("compute")
    if case.probed:
        share = min(share, case.phase("compute", "blocked"))
    share -= disk
    if share <= 0 or case.get("gpu_share") >= 0.5:  # they wait for the GPU
        return None
    said = [f"no thread of the ranks ran or wanted to {per_cent(share)} of the time"]
    said[0] += f" ({where})" if where else ""
    if case.workers:
        children = wording.count(case.workers, "child process", "child processes")
        said.append(f"{children} used {case.total('children_cores'):.2g} cores")
    return Suspect(Cause.WAITING, share, tuple(said), where)


def straggler(case: Case) -> Suspect | None:
    """Return a rank, or at most half of them, that the others wait for; ``None``: there is none."""
    ranks = case.probed or case.recorded
    if len(ranks) < 2:
        return None
    late, share, said = (_late_inside if case.probed else _late_outside)(ranks)
    if not share:
        return None
    numbers = ", ".join(str(rank.rank) for rank in late)
    subject = f"{'rank' if len(late) == 1 else 'ranks'} {numbers}"
    hosts = {rank.host for rank in late}
    if len(hosts) == 1 and (host := hosts.pop()):
        subject = f"{subject} (on {host})"
        on_host = case.others_by_host.get(host, 0.0)
        elsewhere = (used for name, used in case.others_by_host.items() if name != host)
        most = f"{max(elsewhere, default=0.0):.1f} on another host at most"
        said = (*said, f"other processes used {on_host:.1f} cores on {host}, {most}")
    return Suspect(Cause.STRAGGLER, share, said, subject)


#: Who is late, for what share of the ranks' time (0: nobody is), and the evidence.
_Late = tuple[list[RankFigures], float, tuple[str, ...]]


def _late_inside(ranks: Sequence[RankFigures]) -> _Late:
    """Find ranks that do something else than the exchange while the others are in it."""

    def exchange(rank: RankFigures) -> float:
        return rank.phases["exchange"].share if "exchange" in rank.phases else 0.0

    def own(rank: RankFigures) -> float:
        return rank.busy("loader") + rank.busy("compute")

    late, others = _split_in_two(ranks, own)
    theirs, its = statistics.median(map(exchange, others)), max(map(exchange, late))
    share = min(theirs - its, min(map(own, late)) - statistics.median(map(own, others)))
    if share < LATE or its > LATE_PART * theirs:
        return late, 0.0, ()
    waited = f"the others waited for it {per_cent(theirs)} of the time, it for them {per_cent(its)}"
    first = late[0]
    verbs = {"running": "ran", "queued": "waited for a CPU", "blocked": "slept"}
    own_phases = [phase for name, phase in first.phases.items() if name != "exchange"]
    parts = [(getattr(phase, part), part, phase) for phase in own_phases for part in verbs]
    time, part, phase = max(parts, key=lambda part: part[0])
    what = "loading data" if phase.phase == "loader" else "in its own work"
    doing = f"rank {first.rank} {verbs[part]} {what} {per_cent(time)} of its time ({phase.where})"
    return late, share, (waited, doing)


def _late_outside(ranks: Sequence[RankFigures]) -> _Late:
    """Find ranks that sleep while the others keep a core busy, as those do that wait in MPI."""

    def demand(rank: RankFigures) -> float:
        return min(1.0, rank.own_runnable)

    late, others = _split_in_two(ranks, lambda rank: -demand(rank))
    its, theirs = max(map(demand, late)), statistics.median(map(demand, others))
    # A rank in MPI spins one core: where they want more, threads compute, and some have fewer.
    threads = any(rank.own_runnable > ONE_THREAD for rank in ranks)
    if threads or theirs < SPINS or its > ASLEEP_PART * theirs:
        return late, 0.0, ()
    wanted = f"it wanted a core {per_cent(its)} of the time (ran or queued)"
    why = "a rank that waits in MPI wants a core all the time: one that does not sleeps elsewhere"
    return late, theirs - its, (f"{wanted}, the others {per_cent(theirs)}", why)


def _split_in_two(
    ranks: Sequence[RankFigures], figure: Callable[[RankFigures], float]
) -> tuple[list[RankFigures], list[RankFigures]]:
    """Return the ranks above the middle between both ends, at most half of all, and the rest."""
    order = sorted(ranks, key=figure, reverse=True)
    middle = (figure(order[0]) + figure(order[-1])) / 2
    beyond = sum(figure(rank) > middle for rank in order)
    number = min(max(1, beyond), len(order) // 2)
    late, others = (sorted(part, key=lambda r: r.rank) for part in (order[:number], order[number:]))
    return late, others
