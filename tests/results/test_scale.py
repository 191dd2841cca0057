"""What the layouts of a job come to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.study_samples import FAST, SPEC, in_turn, launched, searched
from tests.study_surface import record
from tuner.model import Finished, Layout, ObjectiveSpec, Outcome, Purpose, SideBySide, Stopped
from tuner.model.outcome import CUT
from tuner.results.exporters.json import dumps
from tuner.results.scale import Point, Scaling
from tuner.stats.pairs import IN_TURN, SIDE_BY_SIDE
from tuner.study.pairing import Pairs

HOSTS = ("h1", "h2", "h3", "h4")


def on_hosts(hosts: int, ppn: int = 2) -> Layout:
    return Layout(hosts * ppn, HOSTS[:hosts], (ppn,) * hosts)


def point(
    layout: Layout, costs: Sequence[float], *, iterations: int = 100, **changes: Any
) -> Point:
    name = f"mnist-{len(layout.hosts)}x{layout.ranks_per_host}"
    spec = replace(SPEC, layout=layout, name=name, **changes)
    return Point(spec, FAST, costs, iterations)


def scaling(times: Mapping[Layout, float], **given: Any) -> Scaling:
    """Each layout six times, with a little noise."""
    noise = [1.0, 1.004, 0.996, 1.002, 0.998, 1.001]
    points = [
        point(at, [time * each for each in noise[place:] + noise[:place]])
        for place, (at, time) in enumerate(times.items())
    ]
    return Scaling(points, **given)


def test_the_verdict_goes_from_host_to_host_as_long_as_one_is_worth_it() -> None:
    found = scaling({on_hosts(1): 16.2, on_hosts(2): 10.0, on_hosts(3): 11.1, on_hosts(4): 9.0})
    second, third, fourth = found.verdict().split("; ")
    assert second.startswith("2 hosts: 1.62 times faster than 1 (1.6")
    assert second.endswith("), 23 % dearer")
    assert third.startswith("3 hosts: not worth it, 0.90 times as fast as 2 (0.")
    assert fourth.startswith("4 hosts: 1.11 times faster than 2 (1.1"), "2 was the last worth it"
    assert fourth.endswith("), 80 % dearer")


def test_noise_proves_no_gain() -> None:
    noisy = [point(on_hosts(1), [10.0, 10.4]), point(on_hosts(2), [9.4, 9.9])]
    assert Scaling(noisy).verdict().startswith("2 hosts: no gain is proven, 1.06 times")


def test_the_fastest_layout_stands_for_its_number_of_hosts() -> None:
    times = {on_hosts(1, 1): 12.0, on_hosts(1, 2): 8.0, on_hosts(2, 1): 9.0, on_hosts(2, 2): 4.0}
    assert scaling(times).verdict().startswith("2 hosts: 2.00 times faster than 1")


def test_ranks_on_one_host_are_told_without_prices() -> None:
    found = scaling({Layout(1): 8.0, Layout(2): 4.0, Layout(4): 4.8})
    assert found.verdict().startswith("2 ranks: 2.00 times faster than 1 (")
    assert "; 4 ranks: not worth it, 0.83 times" in found.verdict()
    assert "dearer" not in found.verdict()


def test_prices_of_hosts_decide_what_is_dearer() -> None:
    points = [
        point(on_hosts(1), [8.0] * 6, price_per_hour=3.0),
        point(on_hosts(2), [4.0] * 6, price_per_hour=4.5),
    ]
    assert Scaling(points).verdict().endswith("), 25 % cheaper")


def test_a_whole_job_has_a_time_and_a_price() -> None:
    points = [point(at, [t] * 6, price_per_hour=p)
              for at, t, p in ((on_hosts(1), 8.0, 3.6), (on_hosts(2), 4.0, 7.2))]  # fmt: skip
    first, second = Scaling(points, job_iterations=1000).json()["layouts"]
    assert (first["job_s"], first["job_price"]) == (80.0, 0.08)
    assert (second["job_s"], second["job_price"]) == (40.0, 0.08)
    assert (second["iterations_per_s"], second["price"]) == (25.0, 0.008)
    assert second["efficiency"]["ratio"] == 1.0


def test_weak_scaling_counts_the_work_that_grows() -> None:
    found = scaling({on_hosts(1): 8.0, on_hosts(2): 10.0}, weak=True, job_iterations=1000)
    first, second = found.json()["layouts"]
    assert round(second["speed_up"]["ratio"], 2) == 1.6
    assert round(second["efficiency"]["ratio"], 2) == 0.8
    assert round(second["job_s"] / first["job_s"], 3) == 0.625
    rate = [
        replace(each, spec=replace(each.spec, objective=ObjectiveSpec("pattern", maximize=True)))
        for each in found.points
    ]
    slower = Scaling(rate, weak=True).json()["layouts"][1]["speed_up"]["ratio"]
    assert round(slower, 2) == 0.8, "a rate counts the work itself"


def test_a_layout_that_cannot_win_by_amdahls_law_is_named_with_the_reason() -> None:
    found = scaling({on_hosts(1): 8.0, on_hosts(2): 8.4})
    four = point(on_hosts(4), []).spec
    said = "skipped: by Amdahl's law no better than 8.00 s, and 1x2 has 8.00 s"
    assert found.cannot_win(four) == said
    assert scaling({on_hosts(1): 8.0, on_hosts(2): 5.0}).cannot_win(four) == ""
    assert replace(found, weak=True).cannot_win(four) == "", "the law does not apply"
    more_ranks = point(on_hosts(2, 4), []).spec
    assert found.cannot_win(more_ranks) == "", "nothing was seen of that many ranks a host"
    rows = replace(found, points=[*found.points, Point(four, FAST, why=said)])
    assert rows.table()[-1] == {"layout": "4x2", "": said}
    assert rows.json()["layouts"][-1]["note"] == said


def test_confirmed_samples_are_compared_and_all_if_nothing_was_confirmed() -> None:
    view = launched([*searched(), *in_turn(8.3, 3.5, 6)])
    confirmed = Point.of(view)
    assert (confirmed.setting, len(confirmed.costs), max(confirmed.costs)) == (FAST, 6, 3.5)
    unconfirmed = launched(searched(), spec=replace(SPEC, confirm="none"))
    assert Point.of(unconfirmed).costs == [3.6, 3.6]


def test_table_json_and_page_tell_the_same() -> None:
    found = scaling({on_hosts(1): 16.2, on_hosts(2): 10.0})
    first, second = found.table()
    assert first["speed-up"] == "1.00"
    assert second["speed-up"].startswith("1.62 (1.6")
    assert second["setting"].startswith("omp_threads=1")
    assert "job" not in second and "cost per run" not in second
    document = json.loads(dumps(found.json()))
    assert document["schema"] == "tuner.scale/1"
    assert document["verdict"] == found.verdict()
    page = found.page()
    assert found.verdict().partition(",")[0] in page
    assert "<h1>mnist</h1>" in page  # of the studies mnist-1x2 and mnist-2x2
    assert "src=" not in page.partition("<body>")[0].lower(), "nothing is loaded"


# --- launched by pairs ---------------------------------------------------------------------


def in_pairs(
    times_s: tuple[float, float], count: int, begin: int, *, side_by_side: bool, bound: int | None
) -> Pairs:
    """Launches of two studies, with a little noise; of one side only a bound may be known."""
    noise, launches = [1.0, 1.004, 0.997, 1.002], []
    for number in range(begin, begin + count):
        sides = []
        for side, time_s in enumerate(times_s):
            took_s = time_s * noise[(number + side) % 4]
            ending = (
                Finished(took_s, 100)
                if side != bound
                else Stopped(took_s, took_s, took_s, None, 0.0, CUT)
            )
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
    scaled = Scaling([point(at, []) for at in times], **given)
    for after in scaled.points[1:]:
        before = scaled.reference(after.spec)
        assert before is not None
        times_s = times[before.spec.layout], times[after.spec.layout]
        for count in range(1, 7):
            pairs = in_pairs(times_s, count, 10 * len(scaled.links), side_by_side=side_by_side,
                             bound=bound)  # fmt: skip
            if scaled.is_decided(before, after, pairs):
                break
        scaled = scaled.with_pairs(before.spec, after.spec, pairs)
    return scaled


RANKS = {Layout(1): 8.0, Layout(2): 4.0, Layout(4): 4.0, Layout(8): 3.0}


def test_each_layout_is_launched_beside_the_last_one_that_was_worth_it() -> None:
    found = by_pairs(RANKS)
    second, third, fourth = found.verdict().split("; ")
    assert second.startswith("2 ranks: 2.00 times faster than 1 (1.")
    assert second.endswith(", 3 pairs side by side)")
    assert third.startswith("4 ranks: not worth it, 1.00 times as fast as 2 (0.9")
    assert third.endswith(", 5 pairs side by side)"), "sooner it is not known"
    assert fourth.startswith("8 ranks: 1.33 times faster than 2 (1.")
    cells = [row.get("compared", "") for row in found.table()]
    assert cells == [
        "",
        "3 pairs side by side with 1x1",
        "5 pairs side by side with 1x2",
        "3 pairs side by side with 1x2",
    ]
    rows = found.json()["layouts"]
    assert rows[0]["by_pairs"] is None
    assert rows[3]["by_pairs"] == {"study": "mnist-1x2", "pairs": 3, "is_side_by_side": True}
    # Against the first layout the ratios multiply, and what is uncertain of both adds up.
    gain, direct = rows[3]["speed_up"], rows[1]["speed_up"]
    assert round(gain["ratio"], 1) == 2.7
    assert gain["high"] / gain["low"] > direct["high"] / direct["low"]
    assert len(rows[1]["figures"]) == 3 + 5 + 3 and rows[1]["iterations_per_s"] == 25.0


def test_pairs_in_turn_say_so_and_are_judged_by_their_own_rule() -> None:
    found = by_pairs({Layout(1): 8.0, Layout(2): 4.0}, side_by_side=False)
    assert found.verdict().endswith(", 3 pairs in turn)")


def test_pairs_count_the_work_that_grows() -> None:
    found = by_pairs({on_hosts(1): 8.0, on_hosts(2): 10.0}, weak=True)
    assert found.verdict().startswith("2 hosts: 1.60 times faster than 1 (1.")
    no_gain = by_pairs({on_hosts(1): 8.0, on_hosts(2): 16.0}, weak=True).verdict()
    assert no_gain.startswith("2 hosts: not worth it, 1.00 times") and ", 5 pairs" in no_gain


def test_a_layout_that_fails_is_held_against_nothing_and_bounds_are_said() -> None:
    layouts = Scaling([point(Layout(ranks), []) for ranks in (1, 2, 4)])
    first, second, third = layouts.points
    assert layouts.reference(second.spec) == first
    without = layouts.without(first.spec, "failed: no memory")
    assert without.reference(second.spec) is None
    assert without.reference(third.spec) == second
    slow_first = by_pairs({Layout(1): 40.0, Layout(8): 8.0}, bound=0)
    slow, fast = slow_first.table()
    assert slow["time"] == "at least 40.1 s" and fast["time"] == "8.00 s"
    assert fast["speed-up"].startswith("at least 4.")
    assert slow_first.verdict().startswith("8 ranks: at least 4.")
    assert slow_first.verdict().endswith(" times faster than 1 (2 pairs side by side)")
    slow_last = by_pairs({Layout(1): 8.0, Layout(8): 40.0}, bound=1)
    assert slow_last.verdict().startswith("8 ranks: not worth it, at most 0.2")


def test_of_several_layouts_on_one_host_the_fastest_is_held_against_those_on_two() -> None:
    layouts = {on_hosts(1, 1): 8.0, on_hosts(1, 2): 4.0, on_hosts(1, 4): 6.0, on_hosts(2, 1): 5.0,
               on_hosts(2, 2): 2.5}  # fmt: skip
    found = by_pairs(layouts)
    sides = [(link.before, link.after) for link in found.links]
    assert sides == [("mnist-1x1", "mnist-1x2"), ("mnist-1x2", "mnist-1x4"),
                     ("mnist-1x2", "mnist-2x1"), ("mnist-1x2", "mnist-2x2")]  # fmt: skip
    assert found.verdict().startswith("2 hosts: 1.60 times faster than 1 (")
