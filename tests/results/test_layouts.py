from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.study_samples import FAST, SPEC
from tests.study_surface import record
from tuner.model import Finished, Layout, ObjectiveSpec, Outcome, Purpose, SideBySide, Stopped
from tuner.model.outcome import CUT
from tuner.results.exporters.json import dumps
from tuner.results.layouts import MeasuredLayout, Scaling
from tuner.stats.pairs import IN_TURN, SIDE_BY_SIDE
from tuner.study.pairing import Pairs

HOSTS = ("h1", "h2", "h3", "h4")
NOISE = [1.0, 1.004, 0.997, 1.002, 0.998, 1.001]


def on_hosts(hosts: int, ppn: int = 2) -> Layout:
    return Layout(hosts * ppn, HOSTS[:hosts], (ppn,) * hosts)


def measured(layout: Layout, *costs: float, **changes: Any) -> MeasuredLayout:
    name = f"mnist-{len(layout.hosts)}x{layout.ranks_per_host}"
    spec = replace(SPEC, layout=layout, name=name, **changes)
    return MeasuredLayout(spec, FAST, costs, 100)


@pytest.mark.parametrize(
    ("times", "lines"),
    [
        # From host to host as long as one is worth it.
        (
            {on_hosts(1): 16.2, on_hosts(2): 10.0, on_hosts(3): 11.1, on_hosts(4): 9.0},
            [
                ("2 hosts: 1.62 times faster than 1 (1.5", ", 3 pairs side by side), 24 % dearer"),
                ("3 hosts: not worth it, 0.90 times as fast as 2 (0.", "% dearer"),
                ("4 hosts: 1.11 times faster than 2 (1.0", "), 80 % dearer"),
            ],
        ),
        # Ranks on one host have no price.
        (
            {Layout(1): 8.0, Layout(2): 4.0, Layout(4): 4.8},
            [("2 ranks: 2.00 times faster than 1 (", ")"), ("4 ranks: not worth it, 0.83", ")")],
        ),
    ],
)
def test_the_verdict(times: Mapping[Layout, float], lines: list[tuple[str, str]]) -> None:
    texts = by_pairs(times).verdict().split("; ")
    assert len(texts) == len(lines)
    for text, (begin, end) in zip(texts, lines, strict=True):
        assert text.startswith(begin) and text.endswith(end), text


def test_noise_proves_no_gain_and_prices_decide_what_is_dearer() -> None:
    noisy = by_pairs({on_hosts(1): 10.0, on_hosts(2): 9.83})
    assert noisy.verdict().startswith("2 hosts: no gain is proven, 1.02 times")
    layouts = by_pairs({on_hosts(1): 8.0, on_hosts(2): 4.0}).layouts
    prices = zip(layouts, (3.0, 4.5), strict=True)
    scaled = Scaling([replace(p, spec=replace(p.spec, price_per_hour=x)) for p, x in prices])
    assert scaled.verdict().endswith("), 25 % cheaper")
    _, second = scaled.json()["layouts"]
    assert second["iterations_per_s"] == pytest.approx(25.0, rel=0.01)
    assert second["efficiency"]["ratio"] == pytest.approx(1.0, rel=0.01)
    assert second["price"] == pytest.approx(0.005, rel=0.01)


def test_weak_scaling_counts_the_work_that_grows() -> None:
    weak = by_pairs({on_hosts(1): 8.0, on_hosts(2): 10.0}, weak=True)
    _, second = weak.json()["layouts"]
    assert round(second["speed_up"]["ratio"], 2) == 1.6
    assert round(second["efficiency"]["ratio"], 2) == 0.8
    objective = ObjectiveSpec("pattern", maximize=True)
    rate = [replace(p, spec=replace(p.spec, objective=objective)) for p in weak.layouts]
    slower = Scaling(rate, weak=True).json()["layouts"][1]["speed_up"]["ratio"]
    assert round(slower, 2) == 0.8, "a rate counts the work itself"


def test_table_and_json_tell_the_same() -> None:
    layouts = by_pairs({on_hosts(1): 16.2, on_hosts(2): 10.0}).without(
        replace(SPEC, name="mnist-1x2"), "failed: no memory"
    )
    first, second = layouts.table()
    assert (first["speed-up"], first[""]) == ("1.00", "failed: no memory")
    assert second["speed-up"].startswith("1.62 (1.5")
    assert second["setting"].startswith("omp_threads=1")
    assert "cost per run" not in second
    document = json.loads(dumps(layouts.json()))
    assert document["schema"] == "tuner.scale/1"
    assert document["verdict"] == layouts.verdict()


# --- launched by pairs ---------------------------------------------------------------------


def in_pairs(
    times_s: tuple[float, float], count: int, begin: int, *, side_by_side: bool, bound: int | None
) -> Pairs:
    """Launches of two studies, with a little noise; of one side only a bound may be known."""
    launches = []
    for number in range(begin, begin + count):
        sides = []
        for side, time_s in enumerate(times_s):
            took_s = time_s * NOISE[(number + side) % 4]
            cut = Stopped(took_s, took_s, took_s, None, 0.0, CUT)
            ending = cut if side == bound else Finished(took_s, 100)
            beside = SideBySide(number) if side_by_side else None
            outcome = Outcome(ending, took_s, 0, side_by_side=beside)
            sides.append(record(number, FAST, Purpose.RECORD, outcome))
        launches.append((sides[0], sides[1]))
    rule = replace(SIDE_BY_SIDE if side_by_side else IN_TURN, most_pairs=6)
    return Pairs(launches, side_by_side, rule, (100, 100))


def by_pairs(
    times: Mapping[Layout, float],
    *,
    side_by_side: bool = True,
    bound: int | None = None,
    **given: Any,
) -> Scaling:
    """Each layout by pairs with what it is to be launched beside, until that is decided."""
    scaled = Scaling([measured(at) for at in times], **given)
    for place, after in enumerate(scaled.layouts[1:]):
        before = scaled.reference(after.spec)
        assert before is not None
        times_s = times[before.spec.layout], times[after.spec.layout]
        for count in range(1, 7):
            pairs = in_pairs(times_s, count, 10 * place, side_by_side=side_by_side, bound=bound)
            if scaled.judge(before, after, pairs) is not None:
                break
        scaled = scaled.with_pairs(before.spec, after.spec, pairs)
    return scaled


def test_each_layout_is_launched_beside_the_last_one_that_was_worth_it() -> None:
    scaled = by_pairs({Layout(1): 8.0, Layout(2): 4.0, Layout(4): 4.0, Layout(8): 3.0})
    second, third, fourth = scaled.verdict().split("; ")
    assert second.startswith("2 ranks: 2.00 times faster than 1 (1.")
    assert second.endswith(", 3 pairs side by side)")
    assert third.startswith("4 ranks: not worth it, 1.00 times as fast as 2 (0.9")
    assert third.endswith(", 5 pairs side by side)"), "sooner it is not known"
    assert fourth.startswith("8 ranks: 1.33 times faster than 2 (1.")
    rows = scaled.json()["layouts"]
    assert rows[3]["by_pairs"] == {"study": "mnist-1x2", "pairs": 3, "is_side_by_side": True}
    # Against the first layout the ratios multiply, and what is uncertain of both adds up.
    gain, direct = rows[3]["speed_up"], rows[1]["speed_up"]
    assert round(gain["ratio"], 1) == 2.7
    assert gain["high"] / gain["low"] > direct["high"] / direct["low"]
    assert len(rows[1]["figures"]) == 3 + 5 + 3 and rows[1]["iterations_per_s"] == 25.0


def test_of_several_layouts_on_one_host_the_fastest_is_held_against_those_on_two() -> None:
    times = {
        on_hosts(1, 1): 8.0,
        on_hosts(1, 2): 4.0,
        on_hosts(1, 4): 6.0,
        on_hosts(2, 1): 5.0,
        on_hosts(2, 2): 2.5,
    }
    scaled = by_pairs(times)
    beside = [layout.beside for layout in scaled.layouts]
    assert beside == ["", "mnist-1x1", "mnist-1x2", "mnist-1x2", "mnist-1x2"]
    assert scaled.verdict().startswith("2 hosts: 1.60 times faster than 1 (")


@pytest.mark.parametrize(
    ("times", "given", "begin", "end"),
    [
        ({Layout(1): 8.0, Layout(2): 4.0}, {"side_by_side": False}, "", ", 3 pairs in turn)"),
        (
            {on_hosts(1): 8.0, on_hosts(2): 10.0},
            *({"weak": True}, "2 hosts: 1.60 times faster than 1 (1.", ""),
        ),
        (
            {Layout(1): 40.0, Layout(8): 8.0},
            {"bound": 0},
            *("8 ranks: at least 4.", " times faster than 1 (2 pairs side by side)"),
        ),
    ],
)
def test_the_verdict_by_pairs(
    times: Mapping[Layout, float], given: dict[str, Any], begin: str, end: str
) -> None:
    verdict = by_pairs(times, **given).verdict()
    assert verdict.startswith(begin) and verdict.endswith(end), verdict


def test_a_layout_that_fails_is_held_against_nothing_and_bounds_are_said() -> None:
    layouts = Scaling([measured(Layout(ranks)) for ranks in (1, 2, 4)])
    first, second, third = layouts.layouts
    assert layouts.reference(second.spec) == first
    without = layouts.without(first.spec, "failed: no memory")
    assert without.reference(second.spec) is None
    assert without.reference(third.spec) == second
    slow, fast = by_pairs({Layout(1): 40.0, Layout(8): 8.0}, bound=0).table()
    assert slow["time"] == "at least 40.1 s" and fast["time"] == "8.00 s"
    assert fast["speed-up"].startswith("at least 4.")
