"""How far a job scales: its layouts side by side, and which of them is worth its price. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.knobs import setting_text
from tuner.model import Finding, JsonDict, LaunchRecord, Setting, StudySpec, figures, price
from tuner.model.errors import NothingMeasuredError
from tuner.model.wording import count, duration
from tuner.results.report import style
from tuner.results.report.style import Figure
from tuner.results.study_view import StudyView, Table
from tuner.stats import estimates
from tuner.stats.pairs import WORTH
from tuner.stats.scaling import SpeedUp, along, least_time, speed_up
from tuner.study.pairing import Pairs, cost, is_bound


@dataclass(frozen=True)
class Point:
    """A layout, and what its launches with a setting take.

    Attributes:
        spec: The layout's study.
        setting: What was launched.
        costs: Those of its launches.
        iterations: How many the figure of a launch is of; 0: not known.
        why: Why there are no (more) launches.
        is_bound: Some costs are only the least that a launch takes, as it was ended.
    """

    spec: StudySpec
    setting: Setting
    costs: Sequence[float] = ()
    iterations: int = 0
    why: str = ""
    is_bound: bool = False

    @classmethod
    def of(cls, view: StudyView) -> Point:
        """The best setting of a study; its confirmed samples, if it has some."""
        best, same = view.result.best, view.pooling.canonical
        if best is None or not best.samples:
            raise NothingMeasuredError(f"no setting of the study {view.spec.name} has a time")
        compared = [
            sample
            for record in estimates.counted(view.records)
            if record.purpose.stage.is_unselected and same(record.setting) == same(best.setting)
            for sample in record.outcome.samples
        ] or best.samples
        iterations = _timed(view.spec, compared[0].iterations)
        return cls(view.spec, best.setting, [sample.elapsed_s for sample in compared], iterations)

    @property
    def label(self) -> str:
        """``2x4``: 4 ranks on each of 2 hosts."""
        return f"{len(self.spec.layout.hosts)}x{self.spec.layout.ranks_per_host}"

    @property
    def cost(self) -> float:
        """The median."""
        return statistics.median(self.costs)


@dataclass(frozen=True)
class Link:
    """Two layouts, by their studies, that were launched by pairs, and what these show."""

    before: str
    after: str
    pairs: Pairs


@dataclass(frozen=True)
class Scaling:
    """Layouts of one job, the smallest first; one at least has a time.

    Attributes:
        points: The layouts.
        weak: The program's work grows with the ranks.
        job_iterations: Of the whole job, as the first layout counts them.
        links: What was launched by pairs. Each layout is the second one of one link at most, whose
            first one is smaller. Without links each layout was measured by itself.
    """

    points: Sequence[Point]
    weak: bool = False
    job_iterations: int | None = None
    links: Sequence[Link] = ()

    @property
    def measured(self) -> list[Point]:
        """The layouts that have a time."""
        return [point for point in self.points if point.costs]

    def with_pairs(self, before: StudySpec, after: StudySpec, pairs: Pairs) -> Scaling:
        """The same with two layouts that were launched by pairs."""
        links = [*self.links, Link(before.name, after.name, pairs)]
        records: dict[str, dict[int, LaunchRecord]] = {point.spec.name: {} for point in self.points}
        for link in links:
            for first, second in link.pairs.launches:
                records[link.before][first.number] = first
                records[link.after][second.number] = second
        counts = dict(zip((before.name, after.name), pairs.iterations, strict=True))
        points = []
        for point in self.points:
            launches = list(records[point.spec.name].values())
            count_ = counts.get(point.spec.name)
            points.append(
                replace(
                    point,
                    costs=[cost(record) or 0.0 for record in launches],
                    is_bound=any(map(is_bound, launches)),
                    iterations=point.iterations if count_ is None else _timed(point.spec, count_),
                )
            )
        return replace(self, points=points, links=links)

    def without(self, spec: StudySpec, why: str) -> Scaling:
        """The same, with the reason why a layout is not launched (any more)."""
        points = [replace(p, why=why) if p.spec.name == spec.name else p for p in self.points]
        return replace(self, points=points)

    def cannot_win(self, spec: StudySpec) -> str:
        """Why a layout cannot be the fastest by Amdahl's law; empty: it may be, or work grows."""
        target = spec.layout
        smaller = [p for p in self.measured if p.spec.layout.ranks < target.ranks]
        if self.weak or not smaller:
            return ""
        alike = (
            [p for p in smaller if p.spec.layout.ranks_per_host == target.ranks_per_host],
            [p for p in smaller if len(p.spec.layout.hosts) == len(target.hosts)],
        )
        least = max(self._least_time(points, target.ranks) for points in alike)
        best = min(smaller, key=lambda point: point.cost)
        if least * (1 + WORTH) < best.cost:
            return ""
        bound, actual = (figures.shown(spec.objective, cost) for cost in (least, best.cost))
        return f"skipped: by Amdahl's law no better than {bound}, and {best.label} has {actual}"

    def _least_time(self, points: Sequence[Point], ranks: int) -> float:
        """What so many ranks take at least, by what layouts with fewer take."""
        if not points:
            return 0.0
        first, *others = points
        fewest = first.spec.layout.ranks
        gains = [  # noise rules nothing out
            (point.spec.layout.ranks / fewest, self.speed_up(first, point).high) for point in others
        ]
        return least_time(first.cost, gains, ranks / fewest)

    def reference(self, spec: StudySpec) -> Point | None:
        """What a layout is launched beside: the fastest of the last size that was worth it.

        Of the smallest size it is the fastest so far, and before anything was launched the first
        layout. ``None``: no smaller layout works.
        """
        names = [point.spec.name for point in self.points]
        place = names.index(spec.name)
        working = [point for point in self.points[:place] if not point.why]
        measured = [point for point in working if point.costs]
        if not measured:
            return working[0] if working else None
        smaller = [point for point in measured if self._size(point.spec) < self._size(spec)]
        if not smaller:
            return self._fastest(measured)
        return self._steps([*smaller, self.points[place]])[-1][0]

    def speed_up(self, before: Point, after: Point) -> SpeedUp:
        """How many times faster the second layout does the same work."""
        if after.spec.name == before.spec.name:
            gain = SpeedUp(1, 1, 1)
        elif self.links:
            # From the one down to the last layout that both were held against, and up again.
            down, up = (self._links_to(point) for point in (before, after))
            steps = [(link.pairs.gain, False) for link in down if link not in up]
            gain = along([*steps, *((link.pairs.gain, True) for link in up if link not in down)])
        else:
            gain = speed_up(before.costs, after.costs)
        return gain.times(self._more_work(before, after))

    def _links_to(self, point: Point) -> list[Link]:
        """The links that lead to a layout from the smallest one, the last first."""
        links, name = [], point.spec.name
        while (link := next((link for link in self.links if link.after == name), None)) is not None:
            links.append(link)
            name = link.before
        return links

    def is_decided(self, before: Point, after: Point, pairs: Pairs) -> bool:
        """Whether pairs show if the second of two layouts is worth it, or no more are made."""
        return self._finding(before, after, pairs) is not None

    def _finding(self, before: Point, after: Point, pairs: Pairs) -> Finding | None:
        """What pairs prove of the same work; ``None``: another one has to tell."""
        return pairs.judge(after.spec.precision, work=self._more_work(before, after))

    def _more_work(self, before: Point, after: Point) -> float:
        """What is timed of the second, as a multiple of the first; a rate is always of the same."""
        grows = self.weak and not after.spec.objective.maximize
        return after.spec.layout.ranks / before.spec.layout.ranks if grows else 1.0

    def json(self) -> JsonDict:
        """What is known of each layout; see docs/export-schema.md."""
        unit = figures.unit(self.points[0].spec.objective)
        head = {"schema": "tuner.scale/1", "verdict": self.verdict(), "weak": self.weak}
        return head | {"unit": unit, "layouts": [self._row(point) for point in self.points]}

    def _row(self, point: Point) -> JsonDict:
        spec, layout = point.spec, point.spec.layout
        row: JsonDict = {"layout": point.label, "study": spec.name, "note": point.why}
        row |= {"hosts": dict(layout.slots), "ranks": layout.ranks}
        link = next(iter(self._links_to(point)), None)
        row["by_pairs"] = link and {
            "study": link.before,
            "pairs": len(link.pairs.launches),
            "is_side_by_side": link.pairs.is_side_by_side,
        }
        if not point.costs:
            return row
        first = self.measured[0]
        gain, same_work = self.speed_up(first, point), point.cost / self._more_work(first, point)
        paid = price.price(spec, same_work)
        runs = self.job_iterations and self.job_iterations / first.iterations
        return row | {
            "setting": point.setting,
            "figures": [spec.objective.figure(cost) for cost in point.costs],
            "iterations_per_s": point.iterations / point.cost or None,
            "speed_up": gain._asdict(),
            "efficiency": gain.times(first.spec.layout.ranks / layout.ranks)._asdict(),
            "price": paid,
            "job_s": runs and runs * same_work,
            "job_price": runs and paid and runs * paid,
        }

    def verdict(self) -> str:
        """Each number of hosts (or ranks), in its fastest layout, against the last worth it."""
        words, said = figures.words(self.points[0].spec.objective), []
        for before, point in self._steps(self.measured):
            gain, link = self.speed_up(before, point), self._link(before, point)
            at, size = (self._size(p.spec) for p in (before, point))
            how = f"{words.better} than" if gain.low > 1 + WORTH else f"as {words.good} as"
            ratio, interval = _parts(gain, ".2f")
            evidence = filter(None, (interval, _by_pairs(link.pairs) if link else ""))
            times = f"{ratio} times {how} {at} ({', '.join(evidence)})"
            # Without prices all hosts cost the same.
            paid = [p.spec.price_per_hour or len(p.spec.layout.hosts) for p in (before, point)]
            percent = 100 * (paid[1] / paid[0] / gain.ratio - 1)
            if self._on_hosts:
                times += f", {abs(percent):.0f} % {'dearer' if percent > 0 else 'cheaper'}"
            worth = "not worth it, " if self._is_no_gain(before, point) else "no gain is proven, "
            worth = "" if self._is_worth_it(before, point) else worth
            said.append(f"{count(size, 'host' if self._on_hosts else 'rank')}: {worth}{times}")
        return "; ".join(said)

    @property
    def _on_hosts(self) -> bool:
        return len({len(point.spec.layout.hosts) for point in self.points}) > 1

    def _size(self, spec: StudySpec) -> int:
        """The number of hosts, or of ranks on one host."""
        return len(spec.layout.hosts) if self._on_hosts else spec.layout.ranks

    def _steps(self, points: Sequence[Point]) -> list[tuple[Point, Point]]:
        """The fastest layout of each size but the first, behind the last one that was worth it."""
        sizes: dict[int, list[Point]] = {}
        for point in points:
            sizes.setdefault(self._size(point.spec), []).append(point)
        before, *others = map(self._fastest, sizes.values())
        steps = []
        for point in others:
            steps.append((before, point))
            before = point if point.costs and self._is_worth_it(before, point) else before
        return steps

    def _fastest(self, points: Sequence[Point]) -> Point:
        first = points[0]
        return max(points, key=lambda point: self.speed_up(first, point).ratio)

    def _is_worth_it(self, before: Point, after: Point) -> bool:
        return self.speed_up(before, after).low > 1 + WORTH

    def _link(self, before: Point, after: Point) -> Link | None:
        """The pairs that two layouts were launched in, with each other."""
        names = before.spec.name, after.spec.name
        return next((link for link in self.links if (link.before, link.after) == names), None)

    def _is_no_gain(self, before: Point, after: Point) -> bool:
        """Whether a gain worth having is ruled out."""
        link = self._link(before, after)
        finding = None if link is None else self._finding(before, after, link.pairs)
        is_shown = finding is not None and finding.claim in {"slower", "no gain worth having"}
        return is_shown or self.speed_up(before, after).high <= 1 + WORTH

    def table(self) -> list[dict[str, str]]:
        """The cells of each layout by their titles; without what is not known."""
        objective, rows = self.points[0].spec.objective, list[dict[str, str]]()
        timed = price.timed(objective)
        numbers = {"iterations/s": "iterations_per_s", "cost of the job": "job_price"}
        numbers |= {f"cost per {timed.what}": "price"} if timed else {}
        labels = {point.spec.name: point.label for point in self.points}
        for point in self.points:
            row, cells = self._row(point), {"layout": point.label}
            if point.costs:
                bound = "at most " if objective.maximize else "at least "
                shown = figures.shown(objective, point.cost)
                cells[figures.title(objective)] = (bound if point.is_bound else "") + shown
                cells["runs"] = str(len(point.costs))
                cells["speed-up"] = _span(SpeedUp(**row["speed_up"]), ".2f")
                cells["efficiency"] = _span(SpeedUp(**row["efficiency"]), ".0%")
                cells |= {"job": duration(row["job_s"])} if row["job_s"] else {}
                cells |= {n: figures.number(row[key]) for n, key in numbers.items() if row[key]}
                for link in self._links_to(point)[:1]:
                    cells["compared"] = f"{_by_pairs(link.pairs)} with {labels[link.before]}"
                cells["setting"] = setting_text.assigned(point.setting, point.spec.knobs)
            rows.append(cells | {"": point.why})
        return rows

    def grid(self) -> Table:
        """The same for people, without the columns that no layout has."""
        cells = self.table()
        head = [title for title in max(cells, key=len) if any(row.get(title) for row in cells)]
        return Table(tuple(head), [tuple(row.get(title, "") for title in head) for row in cells])

    def figure(self) -> Figure:
        """The speed-up of each layout by its ranks."""
        first, *_ = points = self.measured
        gains = [self.speed_up(first, point) for point in points]
        ranks, ratios = [p.spec.layout.ranks for p in points], [gain.ratio for gain in gains]
        above, below = ([abs(g[end] - g.ratio) for g in gains] for end in (2, 1))
        error = {"symmetric": False, "array": above, "arrayminus": below}
        labels, ideal = [point.label for point in points], [number / ranks[0] for number in ranks]
        dots, line = style.marker(style.BEST, "circle", 9), {"color": style.OTHER, "dash": "dash"}
        measured: JsonDict = {"name": "measured", "error_y": error, "marker": dots}
        traces = (
            style.scatter("markers", ranks, ratios, labels, **measured),
            style.scatter("lines", ranks, ideal, None, name="ideal", line=line),
        )
        axes = {"xaxis": {"title": {"text": "ranks"}}, "yaxis": {"title": {"text": "speed-up"}}}
        gain_texts = [f"{p.label} {gain.ratio:.2f}" for p, gain in zip(points, gains, strict=True)]
        summary = (
            f"Times as fast as {first.label}: {', '.join(gain_texts)}. The dashed line is ideal."
        )
        drawing, title = style.drawing(traces, 500, **axes), "Speed-up by the number of ranks"
        return Figure("speed-up", title, summary, drawing, self.grid())

    def page(self) -> str:
        """The figure as HTML that needs no network."""
        from tuner.results.report.page import render

        first = self.measured[0]
        name = first.spec.name.rpartition(f"-{first.label}")[0] or first.spec.name
        return render("scale.html.jinja", [self.figure()], name=name, verdict=self.verdict())


def _span(gain: SpeedUp, form: str) -> str:
    """``1.62 (1.55 to 1.70)``."""
    if gain.low == gain.high:
        return f"{gain.ratio:{form}}"
    ratio, interval = _parts(gain, form)
    return f"{ratio} ({interval})" if interval else ratio


def _parts(gain: SpeedUp, form: str) -> tuple[str, str]:
    """``1.62`` and ``1.55 to 1.70``; or ``at least 1.55`` if there is no upper end."""
    ratio, low, high = (f"{value:{form}}" for value in gain)
    if gain.low and math.isinf(gain.high):
        return f"at least {low}", ""
    if not gain.low and math.isfinite(gain.high):
        return f"at most {high}", ""
    return ratio, f"{low} to {high}"


def _timed(spec: StudySpec, iterations: int) -> int:
    """Return how many iterations a figure is of, if a launch has so many; 0: not known."""
    return {"steady": 1, "elapsed": iterations}.get(spec.objective.clock, 0)


def _by_pairs(pairs: Pairs) -> str:
    """``3 pairs side by side``."""
    return f"{count(len(pairs.launches), 'pair')} {pairs.how}"
