"""Two studies of one setting each, launched by pairs: which way, and what the pairs show. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from tuner.model import Claim, Finding, LaunchRecord, Purpose, StudySpec
from tuner.stats import pairs
from tuner.stats.scaling import SpeedUp
from tuner.study.history import History
from tuner.study.pairing import (
    cost,
    doubts,
    end_error,
    impossible,
    is_bound,
    rule_side_by_side,
)


@dataclass(frozen=True)
class Pairs:
    """What two studies show of one setting each, launched by pairs.

    Attributes:
        launches: The pairs that count, each with the launch of the first study first.
        is_side_by_side: How they were made; those that were made in the other way do not count.
        rule: That for how they were made.
        iterations: Of a whole launch of each, in the program's log; 0: it shows none.
        unpaired: Which study's launch (0 or 1) is the last one in turn, so that the other one's is
            missing; ``None``: none is missing.
    """

    launches: Sequence[tuple[LaunchRecord, LaunchRecord]]
    is_side_by_side: bool
    rule: pairs.Rule
    iterations: tuple[int, int] = (0, 0)
    unpaired: int | None = None

    @classmethod
    def of(cls, histories: Sequence[History], most: int | None, *, in_turn: bool) -> Pairs:
        """Return the pairs among the launches of two studies.

        Args:
            histories: The two.
            most: The most pairs that are made, but not fewer than can show anything; ``None``: as
                many as their rule allows.
            in_turn: Which way of the two they were made in.
        """
        sides = [[r for r in h.valid if r.purpose is Purpose.RECORD] for h in histories]
        sides = [[record for record in side if cost(record) is not None] for side in sides]
        unpaired = None
        if in_turn:
            launches, unpaired = _one_after_the_other(sides)
            rule = pairs.IN_TURN
        else:
            launches = _side_by_side(sides)
            rule = rule_side_by_side(launches)
        if most is not None:
            rule = replace(rule, most_pairs=max(most, rule.least_pairs))
        first, second = (h.expected_iterations(h.spec.fixed) or 0 for h in histories)
        return cls(launches, not in_turn, rule, (first, second), unpaired)

    @property
    def how(self) -> str:
        """How they were made, in words."""
        return "side by side" if self.is_side_by_side else "in turn"

    @property
    def costs(self) -> tuple[list[float], list[float]]:
        """The costs of the launches of each study, in the order of the pairs."""
        first, second = ([cost(p[side]) or 0.0 for p in self.launches] for side in (0, 1))
        return first, second

    @property
    def gain(self) -> SpeedUp:
        """How many times as fast the second study is; there is a pair."""
        finding = self.judge(0.0, is_last=True)
        assert finding is not None
        return SpeedUp.of(finding)

    def judge(
        self, precision: float, *, work: float = 1.0, is_last: bool = False
    ) -> Finding | None:
        """Return what they prove of the second study, with the first one as the reference.

        Of a side that was ended early only the least that it takes is known.

        Args:
            precision: A gain below this share is not worth having.
            work: How many times as much work a launch of the second one does.
            is_last: No more pairs are launched.

        Returns:
            The finding; ``None``: another pair has to tell.
        """
        first, second = (any(is_bound(p[side]) for p in self.launches) for side in (0, 1))
        costs = zip(*self.costs, strict=True)
        logs = [math.log(work * before / after) for before, after in costs]
        logs = [-log for log in logs] if second else logs
        finding = pairs.judge(
            logs,
            precision,
            self.rule,
            off=end_error(self.launches),
            at_least=first or second,
            is_last=is_last,
        )
        if finding is None or not second:
            return finding
        claim: Claim = "slower" if finding.claim == "faster" else finding.claim
        return replace(finding, ratio=1 / finding.ratio, low=0.0, high=1 / finding.low, claim=claim)


def why_in_turn(
    specs: Sequence[StudySpec], records: Sequence[Sequence[LaunchRecord]]
) -> str | None:
    """Return why two studies of one setting each are launched in turn; ``None``: side by side.

    The reason is empty if the user has asked for it.

    Args:
        specs: The two.
        records: The launches of each so far.
    """
    if any(spec.compare == "in-turn" for spec in specs):
        return ""
    if not all(spec.layout.is_local for spec in specs):
        return "the studies run on several hosts"
    if why := why_impossible(records):
        return why
    if all(spec.compare == "side-by-side" for spec in specs):
        return None
    return next((doubt for spec in specs for doubt in doubts(spec, records)), None)


def why_impossible(records: Sequence[Sequence[LaunchRecord]]) -> str:
    """Return what the pairs of two studies have shown to be impossible; empty: nothing."""
    return impossible([record for pair in _side_by_side(records) for record in pair])


def _side_by_side(
    sides: Sequence[Sequence[LaunchRecord]],
) -> list[tuple[LaunchRecord, LaunchRecord]]:
    """Return the launches of two studies that ran side by side: these began in one moment."""
    others = {(r.started_at, r.number): r for r in sides[1]}
    launches = []
    for record in sides[0]:
        pair = record.outcome.side_by_side
        other = None if pair is None else others.get((record.started_at, pair.other))
        if other is not None and other.outcome.side_by_side is not None:
            launches.append((record, other))
    return launches


def _one_after_the_other(
    sides: Sequence[Sequence[LaunchRecord]],
) -> tuple[list[tuple[LaunchRecord, LaunchRecord]], int | None]:
    """Return the launches of two studies of which none of either came in between.

    And which of the two has the last launch, if that is in no pair.
    """
    launches = [
        (record.started_at, side, record)
        for side, records in enumerate(sides)
        for record in records
        if record.outcome.side_by_side is None
    ]
    in_pairs: list[tuple[LaunchRecord, LaunchRecord]] = []
    last: dict[int, LaunchRecord] = {}  # by its side
    for _, side, record in sorted(launches, key=itemgetter(0, 1)):
        last = {side: record} if side in last else {**last, side: record}
        if len(last) == 2:
            in_pairs.append((last[0], last[1]))
            last = {}
    return in_pairs, next(iter(last), None)
