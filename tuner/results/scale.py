"""How far a job scales: its layouts side by side, and which of them is worth its price. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.knobs import setting_text
from tuner.model import Finished, JsonDict, Layout, Purpose, Setting, StudySpec, figures, price
from tuner.model.wording import count, duration
from tuner.results.report.plots import style
from tuner.results.report.plots.style import Figure, Table
from tuner.results.study_view import StudyView
from tuner.stats import estimates
from tuner.stats.confirm import WORTH
from tuner.stats.scaling import SpeedUp, least_time, speed_up

#: Launches made to compare: no search chose their setting for their times.
_TO_COMPARE = {Purpose.CONFIRM, Purpose.RECORD}

_ORDINALS = {2: "second", 3: "third", 4: "fourth"}


@dataclass(frozen=True)
class Point:
    """A layout with the setting that is compared; ``why`` it has no samples."""

    spec: StudySpec
    setting: Setting
    samples: tuple[Finished, ...] = ()
    why: str = ""

    @classmethod
    def of(cls, view: StudyView) -> Point:
        """The best setting of a study; its confirmed samples, if it has some."""
        best = view.result.best
        assert best is not None
        same = view.pooling.canonical
        compared = tuple(
            sample
            for record in estimates.counted(view.records)
            if record.purpose in _TO_COMPARE and same(record.setting) == same(best.setting)
            for sample in record.outcome.samples
        )
        return cls(view.spec, best.setting, compared or best.samples)

    @property
    def layout(self) -> Layout:
        """Where its ranks run."""
        return self.spec.layout

    @property
    def label(self) -> str:
        """``2x4``: 4 ranks on each of 2 hosts."""
        return f"{len(self.layout.hosts)}x{self.layout.ranks_per_host}"

    @property
    def costs(self) -> list[float]:
        """Those of its launches, in their order."""
        return [sample.elapsed_s for sample in self.samples]

    @property
    def cost(self) -> float:
        """The median."""
        return statistics.median(self.costs)

    @property
    def iterations(self) -> int:
        """How many a cost is the time of; 0 if that is not known."""
        known = {"steady": 1, "elapsed": self.samples[0].iterations}
        return known.get(self.spec.objective.clock, 0)


@dataclass(frozen=True)
class Scaling:
    """Layouts of one job, the smallest first.

    Args:
        points: The layouts; one at least has a time.
        weak: The program's work grows with the ranks.
        job_iterations: Those of the whole job, counted as the first layout makes them.
    """

    points: Sequence[Point]
    weak: bool = False
    job_iterations: int | None = None

    @property
    def measured(self) -> list[Point]:
        """The layouts that have a time."""
        return [point for point in self.points if point.samples]

    def cannot_win(self, spec: StudySpec) -> str:
        """Why a layout cannot be the fastest by Amdahl's law; empty if it may be.

        Smaller layouts tell with as many ranks a host, and those on as many hosts. If the work
        grows with the ranks, the law says nothing.
        """
        target = spec.layout
        smaller = [p for p in self.measured if p.layout.ranks < target.ranks]
        if self.weak or not smaller:
            return ""
        alike = (
            [p for p in smaller if p.layout.ranks_per_host == target.ranks_per_host],
            [p for p in smaller if len(p.layout.hosts) == len(target.hosts)],
        )
        least = max(least_time([(p.layout.ranks, p.costs) for p in e], target.ranks) for e in alike)
        best = min(smaller, key=lambda point: point.cost)
        if least * (1 + WORTH) < best.cost:
            return ""
        bound, known = (figures.shown(spec.objective, each) for each in (least, best.cost))
        return f"skipped: by Amdahl's law no better than {bound}, and {best.label} has {known}"

    def speed_up(self, before: Point, after: Point) -> SpeedUp:
        """How many times faster the second layout does the same work."""
        found = SpeedUp(1.0, 1.0, 1.0)
        if after is not before:
            found = speed_up(before.costs, after.costs)
        return found.times(self._work(after) / self._work(before))

    def _work(self, point: Point) -> float:
        """What is timed, as a multiple of the first layout's; a rate is always of the same."""
        grows = self.weak and not point.spec.objective.maximize
        return point.layout.ranks / self.measured[0].layout.ranks if grows else 1.0

    def json(self) -> JsonDict:
        """See docs/export-schema.md."""
        unit = figures.unit(self.points[0].spec.objective)
        head = {"schema": "tuner.scale/1", "verdict": self.verdict(), "weak": self.weak}
        return head | {"unit": unit, "layouts": self.rows()}

    def rows(self) -> list[JsonDict]:
        """What is known of each layout, as in the JSON."""
        return [self._row(point) for point in self.points]

    def _row(self, point: Point) -> JsonDict:
        spec, layout = point.spec, point.layout
        row = {"layout": point.label, "hosts": dict(layout.slots), "ranks": layout.ranks}
        row |= {"study": spec.name, "note": point.why}
        if not point.samples:
            return row
        first = self.measured[0]
        gain = self.speed_up(first, point)
        same_work = point.cost / self._work(point)
        paid = price.price(spec, same_work)
        runs = self.job_iterations and first.iterations and self.job_iterations / first.iterations
        return row | {
            "setting": point.setting,
            "figures": [spec.objective.figure(cost) for cost in point.costs],
            "figure": spec.objective.figure(point.cost),
            "iterations_per_s": point.iterations / point.cost or None,
            "speed_up": gain._asdict(),
            "efficiency": gain.times(first.layout.ranks / layout.ranks)._asdict(),
            "price": paid,
            "job_s": runs and runs * same_work,
            "job_price": runs and paid and runs * paid,
        }

    def verdict(self) -> str:
        """Which hosts (on one host: ranks) are worth it, in one line.

        Of layouts on as many hosts the fastest stands for all. Each number of hosts is compared
        with the last one that was worth it.
        """
        on_hosts = len({len(point.layout.hosts) for point in self.points}) > 1
        best: dict[int, Point] = {}
        for point in self.measured:
            size = len(point.layout.hosts) if on_hosts else point.layout.ranks
            if size not in best or self.speed_up(best[size], point).ratio > 1:
                best[size] = point
        (at, before), *others = best.items()
        said = []
        for size, point in others:
            gain = self.speed_up(before, point)
            name, the, a, verb = count(size, "host" if on_hosts else "rank"), "", "", "are"
            if on_hosts and size == at + 1 and size in _ORDINALS:
                name, the, a, verb = f"{_ORDINALS[size]} host", "the ", "a ", "is"
            times, span = f"{gain.ratio:.2f} times", f"({gain.low:.2f} to {gain.high:.2f})"
            if gain.low > 1 + WORTH:
                better = figures.words(point.spec.objective).better + ("" if the else f" than {at}")
                dearer = f", {_dearer(before, point, gain)}" if on_hosts else ""
                said.append(f"{the}{name}: {times} {better} {span}{dearer}")
                at, before = size, point
            elif gain.high <= 1 + WORTH:
                said.append(f"{a}{name} {verb} not worth it at {times} {span}")
            else:
                said.append(f"{a}{name}: no gain is proven at {times} {span}")
        return "; ".join(said)

    def table(self) -> Table:
        """The layouts as text, without the columns in which nothing is known."""
        objective = self.points[0].spec.objective
        timed = price.timed(objective)
        texts = []
        for row, point in zip(self.rows(), self.points, strict=True):
            cells = {"layout": point.label}
            if point.samples:
                job_s = row["job_s"]
                cells |= {
                    figures.title(objective): figures.shown(objective, point.cost),
                    "runs": str(len(point.samples)),
                    "iterations/s": _number(row["iterations_per_s"]),
                    "speed-up": _span(row["speed_up"], ".2f"),
                    "efficiency": _span(row["efficiency"], ".0%"),
                    f"cost per {timed.what if timed else ''}": _number(row["price"]),
                    "job": duration(job_s) if job_s else "",
                    "cost of the job": _number(row["job_price"]),
                    "setting": setting_text.assigned(point.setting, point.spec.knobs),
                }
            texts.append(cells | {"": point.why})
        longest = max(texts, key=len)
        head = [name for name in longest if any(cells.get(name) for cells in texts)]
        return Table.of(tuple(head), [tuple(c.get(name, "") for name in head) for c in texts])

    def figure(self) -> Figure:
        """The speed-up of each layout by its ranks, beside the ideal one."""
        points = self.measured
        gains = [self.speed_up(points[0], point) for point in points]
        ends = {
            "array": [gain.high - gain.ratio for gain in gains],
            "arrayminus": [gain.ratio - gain.low for gain in gains],
        }
        ranks = [point.layout.ranks for point in points]
        said = (
            f"{p.label}: {_span(g._asdict(), '.2f')}" for p, g in zip(points, gains, strict=True)
        )
        traces = [
            style.scatter(
                "markers", ranks, (gain.ratio for gain in gains), said, name="measured",
                marker=style.marker(style.BEST, "circle", 9),
                error_y={"type": "data", "symmetric": False, **ends},
            ),
            style.scatter(
                "lines", ends_of := (min(ranks), max(ranks)), (n / ranks[0] for n in ends_of), None,
                name="ideal", line={"color": style.BASELINE, "dash": "dot"},
            ),
        ]  # fmt: skip
        axes = {
            f"{name}axis": {"title": {"text": text}, "rangemode": "tozero"}
            for name, text in (("x", "ranks"), ("y", f"speed-up over {points[0].label}"))
        }
        drawing = style.drawing(traces, 400, **axes)
        return Figure("scale", "Speed-up by ranks", f"{self.verdict()}.", drawing, self.table())


def _dearer(before: Point, after: Point, gain: SpeedUp) -> str:
    """``23 % dearer``: what the same work costs; without prices all hosts cost the same."""
    old, new = (p.spec.price_per_hour or len(p.layout.hosts) for p in (before, after))
    percent = round(100 * (new / old / gain.ratio - 1))
    return f"{abs(percent)} % {'dearer' if percent > 0 else 'cheaper'}" if percent else "as cheap"


def _number(value: float | None) -> str:
    return "" if value is None else figures.number(value)


def _span(gain: JsonDict, form: str) -> str:
    """``1.62 (1.55 to 1.70)``."""
    ratio, low, high = (f"{each:{form}}" for each in gain.values())
    return ratio if low == high else f"{ratio} ({low} to {high})"
