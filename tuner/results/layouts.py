"""How far a job scales: its layouts side by side, and which of them is worth its price. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.knobs import setting_text
from tuner.model import Finding, JsonDict, LaunchRecord, Setting, StudySpec, figures, price
from tuner.model.wording import count
from tuner.results import claims
from tuner.results.study_view import Table
from tuner.stats.pairs import WORTH
from tuner.stats.scaling import SpeedUp, along
from tuner.study.pairing import Pairs, cost, is_bound


@dataclass(frozen=True)
class MeasuredLayout:
    """A layout, and what its launches with a setting take.

    ``pairs`` is what launches by pairs with a smaller layout show, ``beside`` that one's study. The
    first layout has none.
    """

    spec: StudySpec
    setting: Setting
    costs: Sequence[float] = ()
    iterations: int = 0  # that the figure of a launch covers; 0: not known
    why: str = ""  # the reason why there are no (more) launches
    is_bound: bool = False  # some costs are only the least that a launch takes, as it was ended
    beside: str = ""
    pairs: Pairs | None = None

    @property
    def label(self) -> str:
        """``2x4``: 4 ranks on each of 2 hosts."""
        return self.spec.layout.label

    @property
    def cost(self) -> float:
        """Return the median cost of the launches."""
        return statistics.median(self.costs)

    @property
    def compared(self) -> str:
        """How the layout was compared: ``3 pairs side by side``; empty if not by pairs."""
        return f"{count(len(self.pairs.launches), 'pair')} {self.pairs.how}" if self.pairs else ""


@dataclass(frozen=True)
class Scaling:
    """Layouts of one job, the smallest first; one at least has a time."""

    layouts: Sequence[MeasuredLayout]
    weak: bool = False  # the program's work grows with the ranks

    @property
    def measured(self) -> list[MeasuredLayout]:
        """The layouts that have a time."""
        return [layout for layout in self.layouts if layout.costs]

    def with_pairs(self, before: StudySpec, after: StudySpec, pairs: Pairs) -> Scaling:
        """Return the scaling with what pairs of launches of two layouts show."""
        layouts = [
            replace(layout, beside=before.name, pairs=pairs)
            if layout.spec.name == after.name
            else layout
            for layout in self.layouts
        ]
        records: dict[str, dict[int, LaunchRecord]] = {layout.spec.name: {} for layout in layouts}
        for layout in layouts:
            for first, second in layout.pairs.launches if layout.pairs else ():
                records[layout.beside][first.number] = first
                records[layout.spec.name][second.number] = second
        iterations_of = dict(zip((before.name, after.name), pairs.iterations, strict=True))
        for place, layout in enumerate(layouts):
            launches = list(records[layout.spec.name].values())
            iterations = iterations_of.get(layout.spec.name, layout.iterations)
            layouts[place] = replace(
                layout,
                costs=[cost(record) or 0.0 for record in launches],  # all of a pair have a cost
                is_bound=any(map(is_bound, launches)),
                iterations={"steady": 1, "elapsed": iterations}.get(layout.spec.objective.clock, 0),
            )
        return replace(self, layouts=layouts)

    def without(self, spec: StudySpec, why: str) -> Scaling:
        """Return the scaling with the reason why a layout is not launched (any more)."""
        layouts = [replace(p, why=why) if p.spec.name == spec.name else p for p in self.layouts]
        return replace(self, layouts=layouts)

    def reference(self, spec: StudySpec) -> MeasuredLayout | None:
        """Return what a layout is launched beside: the fastest of the last size worth its price.

        Of the smallest size it is the fastest so far, and before anything was launched the first
        layout. ``None``: no smaller layout works.
        """
        place = [layout.spec.name for layout in self.layouts].index(spec.name)
        working = [layout for layout in self.layouts[:place] if not layout.why]
        measured = [layout for layout in working if layout.costs]
        if not measured:
            return working[0] if working else None
        smaller = [layout for layout in measured if self._size(layout.spec) < self._size(spec)]
        if not smaller:
            return self._fastest(measured)
        return self._steps([*smaller, self.layouts[place]])[-1][0]  # the step to this layout

    def speed_up(self, before: MeasuredLayout, after: MeasuredLayout) -> SpeedUp:
        """Return how many times faster the second layout does the same work."""
        # Down to the last layout that both were compared with, then up to the second.
        down, up = self._gains_to(before), self._gains_to(after)
        backwards = [gain for name, gain in down.items() if name not in up]
        forwards = [gain for name, gain in up.items() if name not in down]
        return along(forwards, backwards).times(self._more_work(before, after))

    def _gains_to(self, layout: MeasuredLayout) -> dict[str, SpeedUp]:
        """Return the gain of each step from the first layout to this one, by the later layout."""
        by_name = {other.spec.name: other for other in self.layouts}
        gains: dict[str, SpeedUp] = {}
        while layout.pairs is not None:
            gains[layout.spec.name] = layout.pairs.gain
            layout = by_name[layout.beside]
        return gains

    def judge(self, before: MeasuredLayout, after: MeasuredLayout, pairs: Pairs) -> Finding | None:
        """Return what pairs prove of the same work; ``None``: another pair is needed."""
        return pairs.judge(after.spec.precision, more_work=self._more_work(before, after))

    def _more_work(self, before: MeasuredLayout, after: MeasuredLayout) -> float:
        """Return how many times the work of the first a launch of the second does; 1 for a rate."""
        grows = self.weak and not after.spec.objective.maximize
        return after.spec.layout.ranks / before.spec.layout.ranks if grows else 1.0

    def json(self) -> JsonDict:
        """Return what is known of each layout; see docs/export-schema.md."""
        unit = figures.unit(self.layouts[0].spec.objective)
        head = {"schema": "tuner.scale/1", "verdict": self.verdict(), "weak": self.weak}
        return head | {"unit": unit, "layouts": [self._row(layout) for layout in self.layouts]}

    def _row(self, layout: MeasuredLayout) -> JsonDict:
        spec, first = layout.spec, self.measured[0]
        row: JsonDict = {"layout": layout.label, "study": spec.name, "note": layout.why}
        row |= {"hosts": dict(spec.layout.slots), "ranks": spec.layout.ranks}
        row["by_pairs"] = layout.pairs and {
            "study": layout.beside,
            "pairs": len(layout.pairs.launches),
            "is_side_by_side": layout.pairs.is_side_by_side,
        }
        if not layout.costs:
            return row
        gain = self.speed_up(first, layout)
        same_work = layout.cost / self._more_work(first, layout)
        return row | {
            "setting": layout.setting,
            "figures": [spec.objective.figure(cost) for cost in layout.costs],
            "iterations_per_s": layout.iterations / layout.cost or None,
            "speed_up": gain._asdict(),
            "efficiency": gain.times(first.spec.layout.ranks / spec.layout.ranks)._asdict(),
            "price": price.price(spec, same_work),
        }

    def verdict(self) -> str:
        """Compare each size, in its fastest layout, with the last one that was worth it."""
        words, clauses = figures.words(self.layouts[0].spec.objective), []
        for before, layout in self._steps(self.measured):
            gain = self.speed_up(before, layout)
            pairs = layout.pairs if layout.beside == before.spec.name else None
            finding = self.judge(before, layout, pairs) if pairs else None
            worth = ""
            if gain.low <= 1 + WORTH:
                claim = "" if finding is None else finding.claim
                is_no_gain = gain.high <= 1 + WORTH or claim in {"slower", "no gain worth having"}
                worth = "not worth it, " if is_no_gain else "no gain is proven, "
            how = f"as {words.good} as" if worth else f"{words.better} than"
            ratio, interval = claims.ratio_and_interval(gain, ".2f")
            evidence = ", ".join(filter(None, (interval, layout.compared if pairs else "")))
            times = f"{ratio} times {how} {self._size(before.spec)} ({evidence})"
            # Both prices are for the same work; without prices all hosts cost the same.
            prices = [p.spec.price_per_hour or len(p.spec.layout.hosts) for p in (before, layout)]
            percent = 100 * (prices[1] / prices[0] / gain.ratio - 1)
            if self._on_hosts:
                times += f", {abs(percent):.0f} % {'dearer' if percent > 0 else 'cheaper'}"
            size = count(self._size(layout.spec), "host" if self._on_hosts else "rank")
            clauses.append(f"{size}: {worth}{times}")
        return "; ".join(clauses)

    @property
    def _on_hosts(self) -> bool:
        return len({len(layout.spec.layout.hosts) for layout in self.layouts}) > 1

    def _size(self, spec: StudySpec) -> int:
        """Return the number of hosts, or of ranks on one host."""
        return len(spec.layout.hosts) if self._on_hosts else spec.layout.ranks

    def _steps(
        self, layouts: Sequence[MeasuredLayout]
    ) -> list[tuple[MeasuredLayout, MeasuredLayout]]:
        """Return the fastest layout of each size but the first, after the last one worth it."""
        sizes: dict[int, list[MeasuredLayout]] = {}
        for layout in layouts:
            sizes.setdefault(self._size(layout.spec), []).append(layout)
        before, *others = map(self._fastest, sizes.values())
        steps = []
        for layout in others:
            steps.append((before, layout))
            if layout.costs and self.speed_up(before, layout).low > 1 + WORTH:
                before = layout
        return steps

    def _fastest(self, layouts: Sequence[MeasuredLayout]) -> MeasuredLayout:
        return max(layouts, key=lambda layout: self.speed_up(layouts[0], layout).ratio)

    def table(self) -> list[dict[str, str]]:
        """Return the cells of each layout by their titles; without what is not known."""
        objective, rows = self.layouts[0].spec.objective, list[dict[str, str]]()
        timed = price.timed(objective)
        numbers = {"iterations/s": "iterations_per_s"}
        numbers |= {f"cost per {timed.what}": "price"} if timed else {}
        labels = {layout.spec.name: layout.label for layout in self.layouts}
        for layout in self.layouts:
            row, cells = self._row(layout), {"layout": layout.label}
            if layout.costs:
                bound = "at most " if objective.maximize else "at least "
                figure = figures.shown(objective, layout.cost)
                cells[figures.title(objective)] = (bound if layout.is_bound else "") + figure
                cells["runs"] = str(len(layout.costs))
                cells["speed-up"] = claims.times_as_fast(SpeedUp(**row["speed_up"]), ".2f")
                cells["efficiency"] = claims.times_as_fast(SpeedUp(**row["efficiency"]), ".0%")
                cells |= {n: figures.number(row[key]) for n, key in numbers.items() if row[key]}
                if layout.pairs is not None:
                    cells["compared"] = f"{layout.compared} with {labels[layout.beside]}"
                cells["setting"] = setting_text.assigned(layout.setting, layout.spec.knobs)
            rows.append(cells | {"": layout.why})
        return rows

    def grid(self) -> Table:
        """Return the table for people, without the columns that are empty for every layout."""
        cells = self.table()
        longest_first = sorted(cells, key=len, reverse=True)
        titles = dict.fromkeys(title for row in longest_first for title in row if title)
        # The last column says why a layout does not work.
        head = [title for title in (*titles, "") if any(row.get(title) for row in cells)]
        return Table(tuple(head), [tuple(row.get(title, "") for title in head) for row in cells])
