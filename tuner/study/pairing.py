"""Pairs of launches, side by side or in turn: which way they are made, and what they show. Pure.

A pair is of two settings of one study, or of two studies of one setting each.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from tuner.launch.clocks import OtherSide
from tuner.model import (
    FROM_OUTSIDE,
    Claim,
    Exclusion,
    ExclusionKind,
    Failed,
    Finding,
    Finished,
    LaunchRecord,
    Setting,
    Stopped,
    StudySpec,
    wording,
)
from tuner.model.outcome import PACE
from tuner.search.throughput import at_usual_pace
from tuner.stats import pairs
from tuner.stats.scaling import SpeedUp
from tuner.study.history import History

#: Of launches with fewer slices each, the times differ as if they had been made in turn.
FEWEST_SLICES = 6

#: Both launches together may need this share of the host's memory, and of a GPU's.
MEMORY_SHARE = 0.8

#: Launches wait, for something that goes on while they are paused, if nothing of one ran in more
#: than this share of the looks at it; by a part of that its time is too short.
IDLE_SHARE = 1 / 3
#: Every launch waits a little, as its ranks meet and at its end. So it matters what one side waits
#: more: this share of the looks, beyond so many looks by chance.
MORE_IDLE_SHARE, BY_CHANCE = 0.1, 3

#: The ratio of a figure to the running time changes by this factor at most beside another launch,
#: as pauses may count in the figure of one side more than of the other. A median between pauses
#: changes it by 2, and so does a clock that stands still in pauses that are subtracted from it.
MOST_OFF_SCALE = 1.4

#: A pair of launches: that of the reference, or of the first study, stands first.
Pair = tuple[LaunchRecord, LaunchRecord]

#: The launches of each of the two sides.
Sides = Sequence[Sequence[LaunchRecord]]


# --- what pairs show -------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """The pairs of two sides that count: all made side by side, or all in turn.

    ``iterations`` are those of a whole launch of each side; 0: its log shows none.
    """

    launches: Sequence[Pair]
    is_side_by_side: bool
    rule: pairs.Rule
    iterations: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, sides: Sides, *, in_turn: bool, most: int | None = None) -> Pairs:
        """Return the pairs among the launches of two sides, of which at most ``most`` are made."""
        sides = [[record for record in side if cost(record) is not None] for side in sides]
        launches = one_after_the_other(sides)[0] if in_turn else side_by_side(sides)
        slices = [number for pair in launches if (number := min(map(_slices, pair)))]
        is_few = bool(slices) and statistics.median(slices) < FEWEST_SLICES
        rule = pairs.FEW_SLICES if is_few else pairs.SIDE_BY_SIDE
        rule = pairs.IN_TURN if in_turn else rule
        if most is not None:
            rule = replace(rule, most_pairs=max(most, rule.least_pairs))
        return cls(launches, not in_turn, rule)

    @property
    def how(self) -> str:
        """How the pairs were made, in words."""
        return "side by side" if self.is_side_by_side else "in turn"

    @property
    def costs(self) -> tuple[list[float], list[float]]:
        """The costs of the launches of each side, in the order of the pairs."""
        first, second = ([cost(p[side]) or 0.0 for p in self.launches] for side in (0, 1))
        return first, second

    @property
    def logs(self) -> list[float]:
        """The logarithm of each pair's ratio, first over second."""
        return [math.log(before / after) for before, after in zip(*self.costs, strict=True)]

    @property
    def gain(self) -> SpeedUp:
        """How many times as fast the second side is; it needs a pair at least."""
        finding = self.judge(0.0, is_last=True)
        assert finding is not None
        return SpeedUp.of(finding)

    def first(self, count: int) -> Pairs:
        """Return the first ``count`` pairs."""
        return replace(self, launches=self.launches[:count])

    def judge(
        self,
        precision: float,
        *,
        more_work: float = 1.0,
        is_last: bool = False,
        expected: Sequence[float] = (),
    ) -> Finding | None:
        """Return what the pairs prove of the second side; ``None``: another pair has to tell.

        A launch of that side does ``more_work`` times what one of the first side does. Of a side
        that was ended early only the least that it takes is known. The ``expected`` are logarithms
        of further pairs.
        """
        is_bounded = [any(is_bound(p[side]) for p in self.launches) for side in (0, 1)]
        sign = -1 if is_bounded[1] else 1  # turned round so that the bound is of the first side
        finding = pairs.judge(
            [sign * (math.log(more_work) + log) for log in (*self.logs, *expected)],
            precision,
            self.rule,
            bias=self._end_error() + self._wait_error(),
            at_least=any(is_bounded),
            is_last=is_last,
        )
        if finding is None or not is_bounded[1]:
            return finding
        claim: Claim = "slower" if finding.claim == "faster" else finding.claim
        return replace(finding, ratio=1 / finding.ratio, low=0.0, high=1 / finding.low, claim=claim)

    def _end_error(self) -> float:
        """Return by how much the logarithms may be off, as launches were ended before their end.

        See :class:`~tuner.search.stopper.PaceKnown`.
        """
        errors = [
            math.log(ending.high_s / ending.low_s) / 2
            for pair in self.launches
            for record in pair
            if isinstance(ending := record.outcome.ending, Stopped)
            and ending.rule == PACE
            and ending.high_s is not None
        ]
        return sum(errors) / len(self.launches) if errors else 0.0

    def _wait_error(self) -> float:
        """Return by how much the logarithms may be off, as a side waited for something.

        What a launch waits for goes on in its pauses: its time may be too short by as much as it
        was seen to wait for while it ran. Waits that are shorter than the time between two looks
        are far shorter than a slice, so that few of them meet a pause. Each side may be off by
        anything up to its own waits, so those of both do not cancel.
        """
        errors = []
        for side in (0, 1):
            runs = [pair[side].outcome.side_by_side for pair in self.launches]
            looks = sum(run.looks for run in runs if run is not None)
            idle_looks = sum(run.long_idle_looks for run in runs if run is not None)
            errors.append(math.log1p(idle_looks / looks) if looks else 0.0)
        return max(errors)


def compared(
    history: History, best: Setting, reference: Setting, *, in_turn: bool | None = None
) -> Pairs:
    """Return the pairs that compare two settings; by default those made as the next one will be."""
    if in_turn is None:
        in_turn = why_settings_in_turn(history, best, reference) is not None
    return Pairs.of(launched(history, best, reference), in_turn=in_turn)


def launched(history: History, best: Setting, reference: Setting) -> Sides:
    """Return the launches of the comparison of two settings, those of the reference first."""
    return [history.of(history.confirming, setting) for setting in (reference, best)]


def next_in_turn(history: History, best: Setting, reference: Setting) -> Setting:
    """Return the next setting of launches in turn, which go A B B A with the reference as A."""
    sides = [
        [r for r in side if cost(r) is not None] for side in launched(history, best, reference)
    ]
    pairs_so_far, unpaired_side = one_after_the_other(sides)
    if unpaired_side is not None:
        return best if unpaired_side == 0 else reference
    return reference if len(pairs_so_far) % 2 == 0 else best


def typical(history: History, setting: Setting) -> OtherSide | None:
    """Return what a launch of a setting takes to its end; ``None``: the search launched none.

    If no launch came to its end, their projections say it.
    """
    finished, projected = [], []
    for record in history.of(history.searched, setting):
        ending, wall_s = record.outcome.ending, record.outcome.wall_s
        if isinstance(ending, Finished) and ending.elapsed_s > 0:
            paced = at_usual_pace(record.outcome.progress)
            finished.append(OtherSide(wall_s, ending.elapsed_s, paced))
        elif isinstance(ending, Stopped) and ending.bound_s > 0:
            times = ending.projection_s / ending.bound_s  # as long as it ran
            projected.append(OtherSide(wall_s * times, ending.projection_s))
    launches = finished or projected
    if not launches:
        return None
    paces = [launch.at_usual_pace for launch in launches if launch.at_usual_pace is not None]
    return OtherSide(
        statistics.median(launch.wall_s for launch in launches),
        statistics.median(launch.cost for launch in launches),
        statistics.median(paces) if paces else None,
    )


def side_by_side(sides: Sides) -> list[Pair]:
    """Return the launches of two sides that ran side by side: these began in one moment."""
    others = {(r.started_at, r.number): r for r in sides[1]}
    launches = []
    for record in sides[0]:
        together = record.outcome.side_by_side
        other = None if together is None else others.get((record.started_at, together.other))
        if other is not None and other.outcome.side_by_side is not None:
            launches.append((record, other))
    return launches


def one_after_the_other(sides: Sides) -> tuple[list[Pair], int | None]:
    """Return the pairs of launches of two sides with no other launch of either in between.

    The second result is the side (0 or 1) of the last launch, if that is in no pair.
    """
    launches = [
        (record.started_at, record.number, side, record)
        for side, records in enumerate(sides)
        for record in records
        if record.outcome.side_by_side is None
    ]
    in_pairs: list[Pair] = []
    unpaired: dict[int, LaunchRecord] = {}  # by its side
    for _, _, side, record in sorted(launches, key=itemgetter(0, 1, 2)):
        unpaired = {side: record} if side in unpaired else {**unpaired, side: record}
        if len(unpaired) == 2:
            in_pairs.append((unpaired[0], unpaired[1]))
            unpaired = {}
    return in_pairs, next(iter(unpaired), None)


def cost(record: LaunchRecord) -> float | None:
    """Return the cost that a launch is compared by; ``None``: it has none.

    The cost of a launch that was stopped is its projection, or the least that it takes.
    """
    ending, cost = record.outcome.ending, 0.0
    if isinstance(ending, Finished):
        cost = ending.elapsed_s
    elif isinstance(ending, Stopped):
        cost = ending.bound_s if is_bound(record) else ending.projection_s
    return cost if cost > 0 else None


def is_bound(record: LaunchRecord) -> bool:
    """Return whether only the least that a launch takes is known."""
    ending = record.outcome.ending
    return isinstance(ending, Stopped) and ending.rule != PACE


def _slices(record: LaunchRecord) -> int:
    together = record.outcome.side_by_side
    return 0 if together is None else len(together.slices)


# --- which way pairs are made ----------------------------------------------------------------


def why_settings_in_turn(history: History, best: Setting, reference: Setting) -> str | None:
    """Return why two settings of a study are launched in turn; see `why_in_turn`."""
    sides = [history.of(history.searched, setting) for setting in (best, reference)]
    return why_in_turn([history.spec], sides, history.records, history.searched)


def why_in_turn(
    specs: Sequence[StudySpec],
    sides: Sides,
    launches: Sequence[LaunchRecord],
    searched: Sequence[LaunchRecord] = (),
) -> str | None:
    """Return why two sides are launched in turn; ``None``: they can be launched side by side.

    The reason is empty if the user has asked for it. The ``launches`` of any pair show what is
    impossible, and ``searched``, of any setting, which files are written.
    """
    if any(spec.compare == "in-turn" or spec.confirm == "exact" for spec in specs):
        return ""
    if len(specs) > 1 and not all(spec.layout.is_local for spec in specs):
        return "the studies run on several hosts"
    if why := impossible(launches):
        return why
    if all(spec.compare == "side-by-side" for spec in specs):
        return None
    return next((doubt for spec in specs for doubt in _doubts(spec, sides, searched)), None)


def impossible(records: Sequence[LaunchRecord]) -> str:
    """Return what launches side by side have shown to be impossible; empty: nothing.

    One that was ended from outside, or by the user, shows nothing.
    """
    for record in records:
        exclusion, is_of_pair = record.outcome.exclusion, record.outcome.side_by_side is not None
        if exclusion is not None:
            if exclusion.kind is ExclusionKind.SIDE_BY_SIDE:
                return exclusion.text
        elif is_of_pair and isinstance(record.outcome.ending, Stopped) and cost(record) is None:
            return f"launch {record.number} was stopped beside another one before it showed a pace"
    return ""


def _doubts(spec: StudySpec, sides: Sides, searched: Sequence[LaunchRecord]) -> Iterator[str]:
    """Yield what speaks against two launches at once; ``--compare side-by-side`` overrules it."""
    if spec.prepare:
        yield "--prepare runs before each launch, when the other one would still be there"
    observed = [[record.outcome.observation for record in side] for side in sides]
    need_bytes = sum(max((o.memory_bytes for o in side), default=0) for side in observed)
    if need_bytes > MEMORY_SHARE * spec.machine.memory_bytes:
        needed, available = map(wording.gibibytes, (need_bytes, spec.machine.memory_bytes))
        yield f"both together need {needed} of memory, and the host has {available}"
    gpu_share = sum(max((o.gpu_memory_share for o in side), default=0.0) for side in observed)
    if gpu_share > MEMORY_SHARE:
        share = f"{100 * MEMORY_SHARE:g} % of a GPU's memory"
        yield f"both together need more than {share}, with what others have of it"
    # A launch that was stopped early may not have written yet what other launches write.
    # The windows of a job are one writer.
    writers = defaultdict[str, set[int]](set)
    for record in searched:
        for path in record.outcome.observation.written:
            writers[path].add(record.job or record.number)
    paths = [{path for o in side for path in o.written} for side in observed]
    shared = {path for path, ids in writers.items() if len(ids) > 1} | paths[0] & paths[1]
    if shared:
        yield f"both write {wording.one_line(min(shared))}"


# --- whether a pair counts -------------------------------------------------------------------


def check_pair(pair: Sequence[LaunchRecord], histories: Sequence[History]) -> list[LaunchRecord]:
    """Return both launches of a pair, excluded if they cannot be compared side by side.

    The histories are those of the study of each, before the pair.
    """
    why = ""
    for record in pair:
        ending = record.outcome.ending
        if isinstance(ending, Failed) and ending.kind not in FROM_OUTSIDE:
            reason = wording.one_line(ending.reason)
            why = why or f"launch {record.number} failed beside another one: {reason}"
    if not why and any(history.spec.compare != "side-by-side" for history in histories):
        why = _idleness(pair) or _off_scale(pair, histories)
    if not why:
        return list(pair)
    exclusion = Exclusion(ExclusionKind.SIDE_BY_SIDE, why)
    return [replace(r, outcome=replace(r.outcome, exclusion=exclusion)) for r in pair]


def _idleness(pair: Sequence[LaunchRecord]) -> str:
    """Return that a launch waited for much of its time, or more than the other; empty: none did."""
    looked_at = [
        (side.idle_looks / side.looks, side, record)
        for record in pair
        if (side := record.outcome.side_by_side) is not None and side.looks
    ]
    if not looked_at:
        return ""
    share, side, record = max(looked_at, key=itemgetter(0))
    more = share - min(looked_at, key=itemgetter(0))[0]
    if share <= IDLE_SHARE and more <= MORE_IDLE_SHARE + BY_CHANCE / side.looks:
        return ""
    return (
        f"nothing of launch {record.number} ran in {side.idle_looks} of {side.looks} looks, and"
        " what it waits for goes on while it is paused"
    )


def _off_scale(pair: Sequence[LaunchRecord], histories: Sequence[History]) -> str:
    """Return that the figures of a pair do not follow its running times; empty: they do.

    The pair is compared with launches of the same settings by themselves. A program's own clock,
    from which the pauses are subtracted, may be no clock at all: 0.1 s for each step, say, or CPU
    time. Another figure may be a median or a minimum of steps, of which a short one has no pause in
    it and a long one has. Then the two launches of the pair differ in their figure for each second,
    and differ otherwise than alone. A neighbour can cause either of these, so both must hold.
    """
    scales, changes = [], []
    for record, history in zip(pair, histories, strict=True):
        scales_alone = [
            scale
            for earlier in history.of(history.records, record.setting)
            if earlier.outcome.side_by_side is None
            and earlier.job is None
            and (scale := _scale(earlier)) is not None
        ]
        scale = _scale(record)
        if not scales_alone or scale is None:
            return ""
        scales.append(scale)
        changes.append(scale / statistics.median(scales_alone))
    numbers = " and ".join(str(record.number) for record in pair)
    text = f"the figures of launches {numbers} do not follow their running times as they did alone"
    if any(history.spec.objective.clock == "none" for history in histories):
        off_scale = min(max(values) / min(values) for values in (scales, changes))
        why = "pauses distort a median, a minimum, and what takes a short part of the run"
    else:
        off_scale, why = 1 / min(changes), "their clock may stand still in pauses"
    return f"{text}; {why}" if off_scale > MOST_OFF_SCALE else ""


def _scale(record: LaunchRecord) -> float | None:
    """Return the cost of a launch for each second that it ran; ``None``: it has none."""
    ending, wall_s = record.outcome.ending, record.outcome.wall_s
    if not isinstance(ending, Finished) or ending.elapsed_s <= 0 or wall_s <= 0:
        return None
    return ending.elapsed_s / wall_s
