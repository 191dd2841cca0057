"""A rank that the others wait for: seen from inside, else from what it wanted of the cores."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tuner.results.explain.cause import Cause, Suspect, per_cent
from tuner.results.explain.cpu import ONE_THREAD
from tuner.results.explain.figures import RankFigures

#: A rank for which the others wait so much more of their time is waited for: in three seconds
#: with 70 looks chance alone moves a share of 0.2 by 0.05.
LATE = 0.15
#: … and its own is at the most this part of theirs.
LATE_PART = 0.6

#: A rank that waits in MPI burns a core: one that uses so little beside such others sleeps.
ASLEEP_PART = 0.6
SPINS = 0.7


def straggler(ranks: Sequence[RankFigures]) -> Suspect | None:
    """A rank, or fewer than half of them, that the others wait for."""
    inside = [rank for rank in ranks if rank.phases]
    if len(inside) > 1:
        return _late_inside(inside)
    seen = [rank for rank in ranks if rank.columns]
    return _late_outside(seen) if len(seen) > 1 and not inside else None


def _late_inside(ranks: Sequence[RankFigures]) -> Suspect | None:
    late, others = _apart({rank.rank: _own(rank) for rank in ranks}, highest=True)
    by_rank = {rank.rank: rank for rank in ranks}
    theirs = statistics.median(by_rank[rank].share("exchange") for rank in others)
    its = max(by_rank[rank].share("exchange") for rank in late)
    more = min(_own(by_rank[rank]) for rank in late) - statistics.median(
        _own(by_rank[rank]) for rank in others
    )
    share = min(theirs - its, more)
    if share < LATE or its > LATE_PART * theirs:
        return None
    said = f"the others waited for it {per_cent(theirs)} of the time, it for them {per_cent(its)}"
    return Suspect(
        Cause.STRAGGLER, share, (said, _doing(by_rank[late[0]])), _names(late), inside=True
    )


def _own(rank: RankFigures) -> float:
    """Of its time, that with something else than the exchange; waiting for a CPU apart."""
    all_of = sum(each.running + each.blocked for each in rank.phases.values())
    exchange = rank.phases.get("exchange")
    return all_of - (exchange.running + exchange.blocked if exchange else 0.0)


def _doing(rank: RankFigures) -> str:
    """What a rank mostly did apart from the exchange."""
    parts = [
        (getattr(each, part), words, each)
        for each in rank.phases.values()
        if each.phase != "exchange"
        for part, words in (
            ("running", "ran"),
            ("queued", "waited for a CPU"),
            ("blocked", "slept"),
        )
    ]
    if not parts:
        return f"rank {rank.rank} was not seen at work"
    share, words, each = max(parts, key=lambda part: part[0])
    what = "loading data" if each.phase == "loader" else "in its own work"
    return f"rank {rank.rank} {words} {what} {per_cent(share)} of its time ({each.where})"


def _late_outside(ranks: Sequence[RankFigures]) -> Suspect | None:
    # A rank in MPI spins one core: where they want more, threads compute, and some have fewer.
    if any(rank.own_wanted > ONE_THREAD for rank in ranks):
        return None
    wanted = {rank.rank: min(1.0, rank.own_wanted) for rank in ranks}
    late, others = _apart(wanted, highest=False)
    its, theirs = (
        max(wanted[rank] for rank in late),
        statistics.median(wanted[rank] for rank in others),
    )
    if theirs < SPINS or its > ASLEEP_PART * theirs:
        return None
    said = (
        f"{_names(late)} wanted a core {per_cent(its)} of the time (ran or queued),"
        f" the others {per_cent(theirs)}"
    )
    why = "a rank that waits in MPI wants a core all the time: one that does not sleeps elsewhere"
    return Suspect(Cause.STRAGGLER, theirs - its, (said, why), _names(late), inside=False)


def _apart(values: dict[int, float], *, highest: bool) -> tuple[list[int], list[int]]:
    """The ranks beyond the middle between both ends, at most half of all, and the rest."""
    order = sorted(values, key=lambda rank: values[rank], reverse=highest)
    middle = (values[order[0]] + values[order[-1]]) / 2
    beyond = [
        rank for rank in order if (values[rank] > middle if highest else values[rank] < middle)
    ]
    late = beyond[: max(1, len(order) // 2)] or order[:1]
    return sorted(late), sorted(set(order) - set(late))


def _names(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
