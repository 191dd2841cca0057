"""Ranks that wait: for data, for the disk, for each other, for the network."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from tuner.model import wording
from tuner.results.explain.case import Case, RankFigures
from tuner.results.explain.cause import Cause, Suspect, per_cent
from tuner.results.explain.cpu import ONE_THREAD

#: Less waiting for a disk than this share of the time is not suspected.
DISK_SHARE = 0.1

#: The others wait for a rank if they wait this much more of their time than it: in three seconds
#: with 70 samples chance alone moves a share of 0.2 by 0.05.
LATE_SHARE = 0.15
#: … and if its own wait is at most this part of theirs.
LATE_PART = 0.6

#: A rank that waits in MPI spins. One that uses at most this part of what the others use sleeps,
#: if these keep a core busy for at least this share of the time.
ASLEEP_PART, SPINNING_CORES = 0.6, 0.7


def suspects(case: Case) -> Iterator[Suspect]:
    """Name what the ranks wait for, other than a CPU."""
    disk, late = _disk(case), straggler(case)
    disk_share = disk.share if disk else 0.0
    candidates = [
        disk,
        _loader(case, disk_share),
        late,
        _exchange(case, late.share if late else 0.0),
        _waiting(case, disk_share),
    ]
    yield from filter(None, candidates)
    memory = case.get("memory_pressure_share")
    if memory > 0:
        evidence = [f"some task waited for memory {per_cent(memory)} of the time"]
        swapped = case.load.swapped_bytes if case.load else 0
        evidence += [f"{swapped / 1e6:.0f} MB went to or came from the swap"] if swapped else []
        yield Suspect(Cause.MEMORY, memory, tuple(evidence))


def _disk(case: Case) -> Suspect | None:
    iowait_share = min(1.0, case.get("iowait_cores") / max(1, case.cores))
    pressure = max(case.get("io_pressure_share"), iowait_share)
    blocked = case.time_in("loader", "blocked") + case.time_in("compute", "blocked")
    share = min(pressure, blocked if case.probed else _asleep(case))
    if share < DISK_SHARE:
        return None
    evidence = (f"some task waited for a disk {per_cent(pressure)} of the time", *_loading(case))
    return Suspect(Cause.DISK, share, evidence)


def _loader(case: Case, disk_share: float) -> Suspect | None:
    blocked = case.time_in("loader", "blocked") * (1 - case.worker_queue_share)
    ran = case.time_in("loader", "running")
    share = ran + blocked - disk_share
    if share <= 0:
        return None
    workers = wording.count(case.workers, "child process", "child processes")
    if ran > blocked and not case.workers:
        text = "the ranks load in their own main threads"
    elif ran > blocked:
        text = f"their main threads ran meanwhile, to receive what {workers} loaded"
    else:
        idle = f"{case.idle_cores:.1f} of {case.cores} were idle"
        text = f"{workers} used {case.total('children_cores'):.2g} cores; {idle}"
    return Suspect(Cause.LOADER, share, (*_loading(case), text), case.where("loader"))


def _loading(case: Case) -> Iterator[str]:
    share = case.time_in("loader")
    if share > 0:
        text = f"the ranks waited for data or loaded it {per_cent(share)} of the time"
        yield f"{text} ({case.where('loader')})"


def _exchange(case: Case, late_share: float) -> Suspect | None:
    if not case.probed:
        return None
    ranks = len(case.probed)
    waited = case.time_in("exchange", "running", "blocked")
    # Ranks that wait for a late rank do not wait for the network.
    share = waited * (1 - case.rank_queue_share) - late_share * (ranks - 1) / ranks
    if share <= 0:
        return None
    where = case.where("exchange")
    evidence = [f"the ranks exchanged {per_cent(case.time_in('exchange'))} of the time ({where})"]
    if "network_bytes_per_s" in case.host:
        evidence.append(f"{case.get('network_bytes_per_s') / 1e6:.3g} MB/s over the network")
    return Suspect(Cause.EXCHANGE, share, tuple(evidence), where)


def _asleep(case: Case) -> float:
    """Return the share of a rank's time in which no thread of it ran or wanted to, on average.

    CPU time of the job that belongs to no rank may be any rank's: it counts as theirs.
    """
    asleep = sum(max(0.0, 1 - rank.own_runnable) for rank in case.recorded)
    return max(0.0, asleep - case.unassigned_cores) / max(1, len(case.recorded))


def _waiting(case: Case, disk_share: float) -> Suspect | None:
    """Suspect whatever the ranks sleep for in their own code, if no other reason is known."""
    share, where = _asleep(case), case.where("compute")
    if case.probed:
        share = min(share, case.time_in("compute", "blocked"))
    share -= disk_share
    if share <= 0 or case.get("gpu_share") >= 0.5:  # the ranks wait for the GPU
        return None
    evidence = [f"no thread of the ranks ran or wanted to {per_cent(share)} of the time"]
    evidence[0] += f" ({where})" if where else ""
    if case.workers:
        children = wording.count(case.workers, "child process", "child processes")
        evidence.append(f"{children} used {case.total('children_cores'):.2g} cores")
    return Suspect(Cause.WAITING, share, tuple(evidence), where)


def straggler(case: Case) -> Suspect | None:
    """Return a rank, or at most half of them, that the others wait for; ``None``: there is none."""
    ranks = case.probed or case.recorded
    if len(ranks) < 2:
        return None
    late, share, evidence = (_late_by_phases if case.probed else _late_by_cpu)(ranks)
    if not share:
        return None
    numbers = ", ".join(str(rank.rank) for rank in late)
    subject = f"{'rank' if len(late) == 1 else 'ranks'} {numbers}"
    hosts = {rank.host for rank in late}
    if len(hosts) == 1 and (host := hosts.pop()):
        subject = f"{subject} (on {host})"
        used_cores = case.others_by_host.get(host, 0.0)
        elsewhere = (cores for name, cores in case.others_by_host.items() if name != host)
        most = f"{max(elsewhere, default=0.0):.1f} on another host at most"
        evidence = (*evidence, f"other processes used {used_cores:.1f} cores on {host}, {most}")
    return Suspect(Cause.STRAGGLER, share, evidence, subject)


#: The late ranks, for what share of the ranks' time (0: none is late), and the evidence.
_Late = tuple[list[RankFigures], float, tuple[str, ...]]


def _late_by_phases(ranks: Sequence[RankFigures]) -> _Late:
    """Find ranks that do something else than the exchange while the others are in it."""

    def exchange(rank: RankFigures) -> float:
        return rank.phases["exchange"].share if "exchange" in rank.phases else 0.0

    def work(rank: RankFigures) -> float:
        return rank.busy("loader") + rank.busy("compute")

    late, others = _split_in_two(ranks, work)
    wait, late_wait = statistics.median(map(exchange, others)), max(map(exchange, late))
    share = min(wait - late_wait, min(map(work, late)) - statistics.median(map(work, others)))
    if share < LATE_SHARE or late_wait > LATE_PART * wait:
        return late, 0.0, ()
    waits = f"the others waited for it {per_cent(wait)} of the time, it for them"
    first = late[0]
    verbs = {"running": "ran", "queued": "waited for a CPU", "blocked": "slept"}
    own_phases = [phase for name, phase in first.phases.items() if name != "exchange"]
    parts = [(getattr(phase, part), part, phase) for phase in own_phases for part in verbs]
    time, part, phase = max(parts, key=lambda part: part[0])
    task = "loading data" if phase.phase == "loader" else "in its own work"
    text = f"rank {first.rank} {verbs[part]} {task} {per_cent(time)} of its time ({phase.where})"
    return late, share, (f"{waits} {per_cent(late_wait)}", text)


def _late_by_cpu(ranks: Sequence[RankFigures]) -> _Late:
    """Find ranks that sleep while the others keep a core busy, as those do that wait in MPI."""

    def demand(rank: RankFigures) -> float:
        return min(1.0, rank.own_runnable)

    late, others = _split_in_two(ranks, lambda rank: -demand(rank))
    late_demand, usual_demand = max(map(demand, late)), statistics.median(map(demand, others))
    # A rank spins on one core in MPI. If ranks want more, threads compute, and some have fewer.
    have_threads = any(rank.own_runnable > ONE_THREAD for rank in ranks)
    if have_threads or usual_demand < SPINNING_CORES or late_demand > ASLEEP_PART * usual_demand:
        return late, 0.0, ()
    wanted = f"it wanted a core {per_cent(late_demand)} of the time (ran or queued)"
    why = "a rank that waits in MPI wants a core all the time: one that does not sleeps elsewhere"
    return late, usual_demand - late_demand, (f"{wanted}, the others {per_cent(usual_demand)}", why)


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
