"""How far a job scales: its layouts side by side, and which of them is worth its price. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.knobs import setting_text
from tuner.model import JsonDict, Setting, StudySpec, figures, price
from tuner.model.errors import NothingMeasuredError
from tuner.model.wording import count, duration
from tuner.results.report.plots import Figure, Table, style
from tuner.results.study_view import StudyView
from tuner.stats import estimates
from tuner.stats.pairs import WORTH
from tuner.stats.scaling import SpeedUp, least_time, speed_up


@dataclass(frozen=True)
class Point:
    """A layout, the costs of its launches with a setting, and ``why`` there are no (more)."""

    spec: StudySpec
    setting: Setting
    costs: Sequence[float] = ()
    iterations: int = 0  # of a launch; 0: not known
    why: str = ""

    @classmethod
    def of(cls, view: StudyView) -> Point:
        """The best setting of a study; its confirmed samples, if it has some."""
        best, same, clock = view.result.best, view.pooling.canonical, view.spec.objective.clock
        if best is None or not best.samples:
            raise NothingMeasuredError(f"no setting of the study {view.spec.name} has a time")
        compared = [
            sample
            for record in estimates.counted(view.records)
            if record.purpose.stage.is_unselected and same(record.setting) == same(best.setting)
            for sample in record.outcome.samples
        ] or best.samples
        iterations = {"steady": 1, "elapsed": compared[0].iterations}.get(clock, 0)
        return cls(view.spec, best.setting, [each.elapsed_s for each in compared], iterations)

    @property
    def label(self) -> str:
        """``2x4``: 4 ranks on each of 2 hosts."""
        return f"{len(self.spec.layout.hosts)}x{self.spec.layout.ranks_per_host}"

    @property
    def cost(self) -> float:
        """The median."""
        return statistics.median(self.costs)


@dataclass(frozen=True)
class Scaling:
    """Layouts of one job, the smallest first; one at least has a time."""

    points: Sequence[Point]
    weak: bool = False  # the program's work grows with the ranks
    job_iterations: int | None = None  # of the whole job, as the first layout counts them

    @property
    def measured(self) -> list[Point]:
        """The layouts that have a time."""
        return [point for point in self.points if point.costs]

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
        curves = ([(p.spec.layout.ranks, p.costs) for p in each] for each in alike)
        least = max(least_time(each, target.ranks) for each in curves)
        best = min(smaller, key=lambda point: point.cost)
        if least * (1 + WORTH) < best.cost:
            return ""
        bound, known = (figures.shown(spec.objective, each) for each in (least, best.cost))
        return f"skipped: by Amdahl's law no better than {bound}, and {best.label} has {known}"

    def speed_up(self, before: Point, after: Point) -> SpeedUp:
        """How many times faster the second layout does the same work."""
        gain = SpeedUp(1, 1, 1) if after is before else speed_up(before.costs, after.costs)
        return gain.times(self._work(after) / self._work(before))

    def _work(self, point: Point) -> float:
        """What is timed, as a multiple of the first layout's; a rate is always of the same."""
        grows = self.weak and not point.spec.objective.maximize
        return point.spec.layout.ranks / self.measured[0].spec.layout.ranks if grows else 1.0

    def json(self) -> JsonDict:
        """What is known of each layout; see docs/export-schema.md."""
        unit = figures.unit(self.points[0].spec.objective)
        head = {"schema": "tuner.scale/1", "verdict": self.verdict(), "weak": self.weak}
        return head | {"unit": unit, "layouts": [self._row(point) for point in self.points]}

    def _row(self, point: Point) -> JsonDict:
        spec, layout = point.spec, point.spec.layout
        row: JsonDict = {"layout": point.label, "study": spec.name, "note": point.why}
        row |= {"hosts": dict(layout.slots), "ranks": layout.ranks}
        if not point.costs:
            return row
        first = self.measured[0]
        gain, same_work = self.speed_up(first, point), point.cost / self._work(point)
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
        on_hosts = len({len(point.spec.layout.hosts) for point in self.points}) > 1
        best: dict[int, Point] = {}
        for point in self.measured:
            size = len(point.spec.layout.hosts) if on_hosts else point.spec.layout.ranks
            if size not in best or self.speed_up(best[size], point).ratio > 1:
                best[size] = point
        (at, before), *others = best.items()
        words, said = figures.words(before.spec.objective), []
        for size, point in others:
            gain = self.speed_up(before, point)
            how = f"{words.better} than" if gain.low > 1 + WORTH else f"as {words.good} as"
            times = f"{gain.ratio:.2f} times {how} {at} ({gain.low:.2f} to {gain.high:.2f})"
            # Without prices all hosts cost the same.
            paid = [p.spec.price_per_hour or len(p.spec.layout.hosts) for p in (before, point)]
            percent = 100 * (paid[1] / paid[0] / gain.ratio - 1)
            if on_hosts:
                times += f", {abs(percent):.0f} % {'dearer' if percent > 0 else 'cheaper'}"
            worth = "not worth it, " if gain.high <= 1 + WORTH else "no gain is proven, "
            if gain.low > 1 + WORTH:
                worth, at, before = "", size, point
            said.append(f"{count(size, 'host' if on_hosts else 'rank')}: {worth}{times}")
        return "; ".join(said)

    def table(self) -> list[dict[str, str]]:
        """The cells of each layout by their titles; without what is not known."""
        objective, rows = self.points[0].spec.objective, list[dict[str, str]]()
        timed = price.timed(objective)
        numbers = {"iterations/s": "iterations_per_s", "cost of the job": "job_price"}
        numbers |= {f"cost per {timed.what}": "price"} if timed else {}
        for point in self.points:
            row, cells = self._row(point), {"layout": point.label}
            if point.costs:
                cells[figures.title(objective)] = figures.shown(objective, point.cost)
                cells["runs"] = str(len(point.costs))
                cells["speed-up"] = _span(row["speed_up"], ".2f")
                cells["efficiency"] = _span(row["efficiency"], ".0%")
                cells |= {"job": duration(row["job_s"])} if row["job_s"] else {}
                cells |= {n: figures.number(row[key]) for n, key in numbers.items() if row[key]}
                cells["setting"] = setting_text.assigned(point.setting, point.spec.knobs)
            rows.append(cells | {"": point.why})
        return rows

    def grid(self) -> Table:
        """The same for people, without the columns that no layout has."""
        cells = self.table()
        head = [title for title in max(cells, key=len) if any(row.get(title) for row in cells)]
        return Table.of(tuple(head), [tuple(row.get(title, "") for title in head) for row in cells])

    def figure(self) -> Figure:
        """The speed-up of each layout by its ranks."""
        first, *_ = points = self.measured
        gains = [self.speed_up(first, point) for point in points]
        ranks, ratios = [p.spec.layout.ranks for p in points], [gain.ratio for gain in gains]
        above, below = ([abs(g[end] - g.ratio) for g in gains] for end in (2, 1))
        error = {"symmetric": False, "array": above, "arrayminus": below}
        labels, ideal = [point.label for point in points], [each / ranks[0] for each in ranks]
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


def _span(gain: JsonDict, form: str) -> str:
    """``1.62 (1.55 to 1.70)``."""
    ratio, low, high = (f"{each:{form}}" for each in gain.values())
    return ratio if low == high else f"{ratio} ({low} to {high})"
