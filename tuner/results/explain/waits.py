"""Ranks that wait: for data, for the disk, for each other, for the network."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tuner.model import wording
from tuner.results.explain.case import Case, RankFigures
from tuner.results.explain.cause import Cause, Suspect, per_cent
from tuner.results.explain.cpu import ONE_THREAD

#: Of the time, from which waiting for a disk is what the ranks wait for.
DISK = 0.1

#: A link at its limit moves, in the milliseconds with traffic, as many bytes as in its best ones
#: (measured: 0.9 of them, 0.8 beside other processes; over a link with room 0.5).
FLAT = 0.7
#: Less loads no network, bytes/s.
LEAST_BYTES_PER_S = 1e6


def suspects(case: Case) -> Iterator[Suspect]:
    """What the ranks wait for, other than a CPU."""
    disk = _disk(case)
    late = straggler(case)
    candidates = [
        disk,
        _loader(case, disk.share if disk else 0.0),
        late,
        _exchange(case, late.share if late else 0.0),
        _waiting(case),
    ]
    yield from filter(None, candidates)
    memory = case.get("memory_pressure_share")
    if memory > 0:
        said = [f"some task waited for memory {per_cent(memory)} of the time"]
        swapped = case.load.swapped_bytes if case.load else 0
        said += [f"{swapped / 1e6:.0f} MB went to or came from the swap"] if swapped else []
        yield Suspect(Cause.MEMORY, memory, tuple(said))


def _disk(case: Case) -> Suspect | None:
    pressure = max(
        case.get("io_pressure_share"), min(1.0, case.get("iowait_cores") / max(1, case.cores))
    )
    if case.inside:
        blocked = case.phase("loader", "blocked") + case.phase("compute", "blocked")
    else:
        blocked = _asleep(case)
    share = min(pressure, blocked)
    if share < DISK:
        return None
    said = f"some task waited for a disk {per_cent(pressure)} of the time"
    return Suspect(Cause.DISK, share, (said, *_loading(case)), inside=bool(case.inside))


def _loader(case: Case, disk: float) -> Suspect | None:
    blocked = case.phase("loader", "blocked") * (1 - case.worker_queue_share)
    share = case.phase("loader", "running") + blocked - disk
    if share <= 0:
        return None
    said = [*_loading(case)]
    ran = case.phase("loader", "running")
    if ran > blocked and not case.workers:
        said.append("the ranks load in their own main threads")
    elif ran > blocked:
        said.append(
            f"their main threads ran meanwhile, to receive what"
            f" {wording.count(case.workers, 'child process', 'child processes')} loaded"
        )
    else:
        busy = case.total("children_cores")
        said.append(
            f"{case.workers or 'no'} child processes used {busy:.2g} cores;"
            f" {case.idle_cores:.1f} of {case.cores} were idle"
        )
    return Suspect(Cause.LOADER, share, tuple(said), case.where("loader"))


def _loading(case: Case) -> Iterator[str]:
    share = case.phase("loader")
    if share > 0:
        yield f"the ranks waited for data or loaded it {per_cent(share)} of the time" + _at(
            case, "loader"
        )


def _at(case: Case, phase: str) -> str:
    where = case.where(phase)
    return f" ({where})" if where else ""


def _exchange(case: Case, late: float) -> Suspect | None:
    names = ("network_bytes_per_s", "network_busy_share", "network_burst_bytes_per_s")
    rate, busy, most = map(case.get, names)
    traffic = (
        f"{rate / 1e6:.3g} MB/s over the network, {most / 1e6:.3g} MB/s at the most,"
        f" traffic in {per_cent(busy)} of the milliseconds"
    )
    # A mean above the greatest burst says that the bursts were read elsewhere.
    is_consistent = most >= rate > 0
    # The network moved as much as it ever did whenever it moved anything.
    is_flat = (
        is_consistent and rate >= LEAST_BYTES_PER_S and busy > 0 and rate / busy >= FLAT * most
    )
    if not case.inside:
        share = min(1.0, rate / most) if is_flat else 0.0
        return Suspect(Cause.LINK, share, (traffic,), inside=False) if is_flat else None
    ranks = len(case.inside)
    waited = case.phase("exchange", "running") + case.phase("exchange", "blocked")
    # Those who wait for one rank do not wait for the network.
    share = waited * (1 - case.rank_queue_share) - late * (ranks - 1) / ranks
    if share <= 0:
        return None
    said = f"the ranks exchanged {per_cent(case.phase('exchange'))} of the time"
    evidence = (said + _at(case, "exchange"), *([traffic] if is_consistent else []))
    cause = Cause.LINK if is_flat else Cause.EXCHANGE
    return Suspect(cause, share, evidence, case.where("exchange"))


def _asleep(case: Case) -> float:
    """Of a rank's time, that in which no thread of it ran or wanted to, on average.

    CPU time of the job that belongs to no rank may be any rank's: it counts as theirs.
    """
    ranks = [rank for rank in case.ranks if rank.columns]
    if not ranks:
        return 0.0
    asleep = sum(max(0.0, 1 - rank.own_runnable) for rank in ranks)
    return max(0.0, asleep - case.unassigned_cores) / len(ranks)


def _waiting(case: Case) -> Suspect | None:
    """Sleep in the ranks' own code, for no reason that was seen."""
    if case.get("gpu_share") >= 0.5:  # they wait for the GPU
        return None
    share = _asleep(case)
    if case.inside:
        share = min(share, case.phase("compute", "blocked")) if share else 0.0
    if share <= 0:
        return None
    where = _at(case, "compute")
    said = [f"no thread of the ranks ran or wanted to {per_cent(share)} of the time{where}"]
    if case.workers:
        children = wording.count(case.workers, "child process", "child processes")
        said.append(f"{children} used {case.total('children_cores'):.2g} cores")
    return Suspect(Cause.WAITING, share, tuple(said), case.where("compute"), bool(case.inside))


#: A rank for which the others wait this much more of their time is waited for: in three seconds
#: with 70 looks chance alone moves a share of 0.2 by 0.05.
LATE = 0.15
#: … and its own is at the most this part of theirs.
LATE_PART = 0.6

#: A rank that waits in MPI burns a core: one that uses so little beside such others sleeps.
ASLEEP_PART = 0.6
SPINS = 0.7


def straggler(case: Case) -> Suspect | None:
    """A rank, or at most half of them, that the others wait for; ``None``: there is none."""
    ranks = case.inside or tuple(rank for rank in case.ranks if rank.columns)
    if len(ranks) < 2:
        return None
    late, share, said = (_late_inside if case.inside else _late_outside)(ranks)
    if not share:
        return None
    hosts = {rank.host for rank in late}
    who = _names(late)
    if len(hosts) == 1 and (host := hosts.pop()):
        who = f"{who} (on {host})"
        here = case.others_by_host.get(host, 0.0)
        others = (used for name, used in case.others_by_host.items() if name != host)
        most = max(others, default=0.0)
        said = (
            *said,
            f"other processes used {here:.1f} cores on {host}, {most:.1f} on another host at most",
        )
    return Suspect(Cause.STRAGGLER, share, said, who, inside=bool(case.inside))


#: Who is late, for what share of the ranks' time (0: nobody is), and the evidence.
_Late = tuple[list[RankFigures], float, tuple[str, ...]]


def _late_inside(ranks: Sequence[RankFigures]) -> _Late:
    late, others = _apart(ranks, _own)
    theirs = statistics.median(rank.share("exchange") for rank in others)
    its = max(rank.share("exchange") for rank in late)
    more = min(map(_own, late)) - statistics.median(map(_own, others))
    share = min(theirs - its, more)
    if share < LATE or its > LATE_PART * theirs:
        return late, 0.0, ()
    said = f"the others waited for it {per_cent(theirs)} of the time, it for them {per_cent(its)}"
    return late, share, (said, _doing(late[0]))


def _own(rank: RankFigures) -> float:
    """Of its time, that with something else than the exchange; waiting for a CPU apart."""
    all_of = sum(phase.running + phase.blocked for phase in rank.phases.values())
    exchange = rank.phases.get("exchange")
    return all_of - (exchange.running + exchange.blocked if exchange else 0.0)


def _doing(rank: RankFigures) -> str:
    """What a rank mostly did apart from the exchange."""
    parts = [
        (getattr(phase, part), words, phase)
        for phase in rank.phases.values()
        if phase.phase != "exchange"
        for part, words in (
            ("running", "ran"),
            ("queued", "waited for a CPU"),
            ("blocked", "slept"),
        )
    ]
    if not parts:
        return f"rank {rank.rank} was not seen at work"
    share, words, phase = max(parts, key=lambda part: part[0])
    what = "loading data" if phase.phase == "loader" else "in its own work"
    return f"rank {rank.rank} {words} {what} {per_cent(share)} of its time ({phase.where})"


def _late_outside(ranks: Sequence[RankFigures]) -> _Late:
    def demand(rank: RankFigures) -> float:
        return min(1.0, rank.own_runnable)

    late, others = _apart(ranks, lambda rank: -demand(rank))
    its, theirs = max(map(demand, late)), statistics.median(map(demand, others))
    # A rank in MPI spins one core: where they want more, threads compute, and some have fewer.
    threads = any(rank.own_runnable > ONE_THREAD for rank in ranks)
    if threads or theirs < SPINS or its > ASLEEP_PART * theirs:
        return late, 0.0, ()
    said = (
        f"{_names(late)} wanted a core {per_cent(its)} of the time (ran or queued),"
        f" the others {per_cent(theirs)}"
    )
    why = "a rank that waits in MPI wants a core all the time: one that does not sleeps elsewhere"
    return late, theirs - its, (said, why)


def _apart(
    ranks: Sequence[RankFigures], figure: Callable[[RankFigures], float]
) -> tuple[list[RankFigures], list[RankFigures]]:
    """The ranks above the middle between both ends, at most half of all, and the rest."""
    order = sorted(ranks, key=figure, reverse=True)
    middle = (figure(order[0]) + figure(order[-1])) / 2
    beyond = sum(figure(rank) > middle for rank in order)
    number = min(max(1, beyond), max(1, len(order) // 2))
    by_number = partial(sorted, key=lambda rank: rank.rank)
    return by_number(order[:number]), by_number(order[number:])


def _names(ranks: Sequence[RankFigures]) -> str:
    numbers = ", ".join(str(rank.rank) for rank in ranks)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {numbers}"
