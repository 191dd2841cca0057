"""The search replayed on every surface: what it costs, and how good what it finds is.

    python -m benchmarks.search [--seeds 20] [--first 0] [--only mlp] [--neighbours SHARE]
        [SURFACE.json|FOLDER ...]

Each study is replayed twice: with a launch for every measurement, and in running jobs (`--live`).
Costs are counted in best runs (`benchmarks/surfaces/README.md`). Prints a line a surface, or a
kind of them (`NAME-1`, `NAME-2`, …: `benchmarks/synthetic.py`), with the target beside each figure,
then what holds over all of them; ends with 1 if one is missed.

With `--neighbours` others take this share of the machine while they are on; they come and go after
0.1 to 100 s. A share of 0.22 makes launches in turn scatter by some 10 %, one of 0.67 makes a
launch up to three times slower. The targets are those of the quiet machine.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks import replay
from tuner.model import Conclusion, Purpose, Setting, Stopped
from tuner.search.stopper import EarlyStopper
from tuner.study.history import History
from tuner.study.policy import Policy, SearchThenConfirm, Step, Stop

SURFACES = Path(__file__).resolve().parent / "surfaces"

#: So many studies are replayed at once.
JOBS = 2

#: The search's own thinking, at most, at up to 50 settings.
THINKING_MS = 50.0

GAINLESS = 1.03  # defaults within this ratio of the best: there is nothing worth finding

FLAT = 1.05, 1 / 3  # within this ratio of the best lies this share of the space, or more


@dataclass
class Timed(Policy):
    """A course whose thinking is timed."""

    inner: Policy = field(default_factory=SearchThenConfirm)
    thinking_s: list[float] = field(default_factory=list)

    def next(self, history: History) -> Step | Stop:
        """The next launch."""
        start_s = time.perf_counter()
        step = self.inner.next(history)
        self.thinking_s.append(time.perf_counter() - start_s)
        return step

    def best(self, history: History) -> Setting | None:
        """The setting called best; found by what comes next too."""
        start_s = time.perf_counter()
        best = self.inner.best(history)
        if self.thinking_s:
            self.thinking_s[-1] += time.perf_counter() - start_s
        return best

    def race(self, history: History, purpose: Purpose, setting: Setting) -> EarlyStopper | None:
        """As the other."""
        return self.inner.race(history, purpose, setting)


class Costs(NamedTuple):
    """What a search has cost until its incumbent was that good and in all, and its regret."""

    to_5: float
    to_2: float
    regret: float
    search: float

    @classmethod
    def of(cls, surface: replay.Surface, done: replay.Study) -> Costs:
        """Return the figures of a replayed study."""
        to_5, to_2 = (cost_to(level, surface, done.searched) for level in (0.05, 0.02))
        return cls(to_5, to_2, surface.regret(done.best), done.result.search_s / surface.unit_s)


@dataclass(frozen=True)
class Result:
    """The figures of one study by launches, and of the same in running jobs (``live``)."""

    name: str
    points: int
    flat: bool
    gainless: bool
    cold: Costs
    live: Costs
    confirm: float
    kills: int
    false_kills: int
    losers: tuple[float, ...]  # beyond the start-up, as shares of the incumbent's run
    faster: bool
    covered: bool | None
    thinking_ms: float

    @property
    def line(self) -> str:
        """Its surface, or the kind that this is an instance of."""
        return re.sub(r"-\d+$", "", self.name)


def study(task: tuple[Path, int, float]) -> Result:
    """Replay one study."""
    path, seed, neighbours = task
    surface = replay.load(path)
    course = Timed()
    done = replay.play(surface, replay.spec(surface, seed=seed), seed, course, neighbours)
    kills, losers = _races(surface, done.searched)
    in_jobs = replay.spec(surface, seed=seed, options={"live": "on", "confirm": "none"})
    ratio, share = FLAT
    near = [surface.regret(surface.setting(key)) <= ratio - 1 for key in surface.points]
    return Result(
        name=surface.name,
        points=len(surface.points),
        flat=statistics.mean(near) >= share,
        gainless=surface.regret(surface.setting(surface.default)) < GAINLESS - 1,
        cold=Costs.of(surface, done),
        live=Costs.of(surface, replay.play(surface, in_jobs, seed, neighbours=neighbours)),
        confirm=done.result.confirm_s / surface.unit_s,
        kills=len(kills),
        false_kills=sum(kills),
        losers=tuple(losers),
        faster=done.conclusion is Conclusion.FASTER,
        covered=_covered(surface, done),
        thinking_ms=1000 * statistics.median(course.thinking_s),
    )


def cost_to(level: float, surface: replay.Surface, steps: Sequence[replay.Launched]) -> float:
    """The cost after which the incumbent stays within ``level`` of the best."""
    cost = math.inf
    for step in reversed(steps):
        if surface.regret(step.incumbent) > level + 1e-9:
            break
        cost = step.t_s / surface.unit_s
    return cost


def _races(
    surface: replay.Surface, steps: Sequence[replay.Launched]
) -> tuple[list[bool], list[float]]:
    """Of each kill whether it was false; of each trial that was worse, what it cost."""
    kills, losers = [], []
    incumbent: Setting | None = None
    for step in steps:
        record = step.record
        truth_s, against_s = surface.truth_s(record.setting), surface.truth_s(incumbent)
        if truth_s is not None and against_s is not None and record.purpose is not Purpose.REPEAT:
            if isinstance(record.outcome.ending, Stopped):
                kills.append(truth_s < against_s)
            if truth_s > against_s and record.purpose is not Purpose.BASELINE:
                losers.append(step.elapsed_s / against_s)
        incumbent = step.incumbent
    return kills, losers


def _covered(surface: replay.Surface, done: replay.Study) -> bool | None:
    """Whether the interval holds the true ratio; ``None`` without an interval."""
    finding, reference = done.finding, done.result.baseline
    if finding is None or reference is None:
        return None
    best_s, reference_s = surface.truth_s(done.best), surface.truth_s(reference.setting)
    if best_s is None or reference_s is None:
        return None
    return finding.low <= reference_s / best_s <= (finding.high or math.inf)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def middle(values: Sequence[float]) -> float:
    """The median, also where some are infinite; not a number without values."""
    if not values:
        return math.nan
    low, high = quantile(values, 0.5), sorted(values)[len(values) // 2]
    return low if math.isinf(low) or low == high else (low + high) / 2


@dataclass(frozen=True)
class Column:
    """A figure of the table, with the most that it may be: of a surface, and of a kind."""

    title: str
    figure: Callable[[Sequence[Result]], float]
    small: float | None = None
    large: float | None = None
    flat: float | None = None
    kind: float | None = None
    flat_kind: float | None = None

    def most(self, results: Sequence[Result]) -> float | None:
        """The target for a line."""
        first = results[0]
        if first.line != first.name:
            return self.flat_kind if first.flat else self.kind
        if first.flat:
            return self.flat
        return self.small if first.points <= 500 else self.large


def _false_kills(results: Sequence[Result]) -> float:
    kills = sum(result.kills for result in results)
    return 100 * sum(result.false_kills for result in results) / max(kills, 1)


COLUMNS = (
    Column("to 5 %", lambda r: middle([x.cold.to_5 for x in r]), 10, 25, None, 8),
    Column("90th", lambda r: quantile([x.cold.to_5 for x in r], 0.9), 25, None, None, 25),
    Column("to 2 %", lambda r: middle([x.cold.to_2 for x in r]), 25, None, None, 20),
    Column("regret %", lambda r: 100 * middle([x.cold.regret for x in r]), 1, 2, None, 0.5),
    Column("90th", lambda r: 100 * quantile([x.cold.regret for x in r], 0.9), 4, 4, 3, 3, 2),
    Column("search", lambda r: middle([x.cold.search for x in r])),
    Column("false stops %", _false_kills, None, None, None, 3),
    Column("confirm", lambda r: middle([x.confirm for x in r])),
    Column("live: to 5 %", lambda r: middle([x.live.to_5 for x in r]), 3, 8, 3, 3, 3),
    Column("90th", lambda r: quantile([x.live.to_5 for x in r], 0.9), None, None, None, 8, 8),
    Column("to 2 %", lambda r: middle([x.live.to_2 for x in r])),
    Column("regret %", lambda r: 100 * middle([x.live.regret for x in r])),
    Column("90th", lambda r: 100 * quantile([x.live.regret for x in r], 0.9)),
    Column("search", lambda r: middle([x.live.search for x in r])),
    Column("ms", lambda r: middle([x.thinking_ms for x in r]), *[THINKING_MS] * 5),
)


def _cell(figure: float, most: float | None) -> tuple[str, bool]:
    """A figure with its target, and whether it keeps it (a hundredth over is a rounding)."""
    if most is None:
        return f"{figure:.1f}", True
    kept = figure <= most * 1.001
    return f"{figure:.1f} ({'<=' if kept else 'OVER'} {most:g})", kept


def table(results: Sequence[Result]) -> bool:
    """Print a line a surface or a kind; True if every target is met."""
    kept = True
    names = list(dict.fromkeys(result.line for result in results))
    width = max(len(name) for name in names) + 11
    print("surface (points)".ljust(width), *(c.title.rjust(14) for c in COLUMNS))
    for name in names:
        own = [result for result in results if result.line == name]
        cells = [_cell(column.figure(own), column.most(own)) for column in COLUMNS]
        kept &= all(good for _, good in cells)
        sizes = sorted({result.points for result in own})
        title = f"{name} ({'..'.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))})".ljust(width)
        print(title, *(text.rjust(14) for text, _ in cells))
    return kept


def overall(results: Sequence[Result]) -> bool:
    """Print what is promised of all studies together; True where it is kept.

    Kills on flat surfaces are left out: what is told apart there differs by less than the
    truth's own error.
    """
    uneven = [result for result in results if not result.flat]
    gainless = [result for result in results if result.gainless]
    covered = [result.covered for result in results if result.covered is not None]
    rows = []
    if kills := sum(result.kills for result in uneven):
        title = f"of {kills} kills, better than the incumbent, %"
        rows.append((title, _false_kills(uneven), 3.0))
    losers = [100 * share for result in uneven for share in result.losers]
    if losers:
        rows.append(("a worse trial's run, % of the incumbent's", middle(losers), 25.0))
    if gainless:
        false = 100 * sum(result.faster for result in gainless) / len(gainless)
        rows.append((f'"faster" in {len(gainless)} studies without a gain, %', false, 5.0))
    if covered:
        missed = 100 * (1 - sum(covered) / len(covered))
        rows.append((f"of {len(covered)} intervals, without the true ratio, %", missed, 7.0))
    print()
    kept = True
    for title, figure, most in rows:
        text, good = _cell(figure, most)
        kept &= good
        print(f"{title:55} {text}")
    return kept


def main() -> int:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("surfaces", nargs="*", type=Path, metavar="FILE|FOLDER")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--only", default="", help="surfaces with this in their name")
    parser.add_argument("--neighbours", type=float, default=0.0, metavar="SHARE")
    options = parser.parse_args()
    if not 0 <= options.neighbours < 1:
        parser.error("--neighbours must be a share of at least 0, and below 1")
    paths = [
        path
        for named in options.surfaces or [SURFACES]
        for path in (sorted(named.glob("*.json")) if named.is_dir() else [named])
    ]
    seeds = range(options.first, options.first + options.seeds)
    surfaces = [path for path in paths if options.only in path.name]
    tasks = [(path, seed, options.neighbours) for path in surfaces for seed in seeds]
    if not tasks:
        parser.error("no surface to replay")
    with ProcessPoolExecutor(JOBS) as pool:
        results = list(pool.map(study, tasks, chunksize=2))
    print(f"{options.seeds} seeds a surface; costs in best runs; the targets beside")
    kept = table(results)
    kept &= overall(results)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
