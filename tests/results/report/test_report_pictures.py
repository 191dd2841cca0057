"""The figures as what they draw and say; how they look is looked at in a browser."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import study_samples as samples
from tests.report_samples import GPU_GAP, everything, large, watched
from tests.study_samples import FAST, NEXT, launched, setting, stopped, study
from tuner.model import (
    BASELINE,
    Failed,
    FailureKind,
    ObjectiveSpec,
    Purpose,
    Result,
    Setting,
    Window,
)
from tuner.results.report.plots import FAMILIES, Figure, style
from tuner.results.report.plots.runs import centre, sides
from tuner.results.report.plots.style import MOST_ROWS
from tuner.results.study_view import StudyView

SAMPLES = everything()


def figures(data: StudyView, weights: dict[str, float] | None = None) -> dict[str, Figure]:
    found = [figure for family in FAMILIES for figure in family.build(data, weights or {})]
    by_key = {figure.key: figure for figure in found}
    assert len(by_key) == len(found), "two figures of one key"
    return by_key


def drawing(figure: Figure) -> dict[str, Any]:
    assert figure.drawing is not None
    return figure.drawing


def trace(figure: Figure, name: str) -> dict[str, Any]:
    (found,) = [each for each in drawing(figure)["data"] if each.get("name") == name]
    return dict(found)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_figure_can_be_drawn_and_has_words_and_numbers(name: str) -> None:
    import plotly.graph_objects as go

    for figure in figures(SAMPLES[name], {"omp_threads": 0.7, "other": 0.3}).values():
        assert figure.summary.endswith(".")
        if figure.drawing is None:
            continue
        go.Figure(figure.drawing)  # refuses what Plotly does not know
        assert figure.table is not None
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.head)}


def test_nothing_is_drawn_of_a_study_without_a_time() -> None:
    for name in ("nothing", "only_failures"):
        for figure in figures(SAMPLES[name]).values():
            assert figure.drawing is None or figure.key == "history"
    assert "Nothing was launched yet" in figures(SAMPLES["nothing"])["history"].summary


def test_best_stands_against_the_defaults_with_the_proven_ratio_in_words() -> None:
    found = figures(samples.faster())["versus"]
    assert found.summary == (
        "2.33 times faster than your defaults (95 % interval 2.24 to 2.42, 6 pairs in turn)."
        " Your defaults: median 8.33 s (95 % interval 8.31 to 8.37 s)."
        " Best: median 3.59 s (95 % interval 3.57 to 3.60 s)."
    )
    dots = [each for each in drawing(found)["data"] if each["mode"] == "markers"]
    assert [len(each["x"]) for each in dots] == [7, 8]
    assert [each["marker"]["color"] for each in dots] == [style.BASELINE, style.BEST]


def test_runs_that_were_stopped_are_open_marks_at_their_bound() -> None:
    found = figures(samples.at_least())["versus"]
    (cut,) = [
        each
        for each in drawing(found)["data"]
        if each.get("marker", {}).get("symbol") == "triangle-right-open"
    ]
    assert cut["x"] == [13.5, 9.0, 9.0, 9.0]
    assert "4 runs stopped early" in found.summary


def test_the_ratio_narrows_pair_by_pair_to_that_of_the_verdict() -> None:
    data = samples.faster()
    found, finding = figures(data)["narrowing"], data.result.finding
    assert finding is not None
    assert finding.high is not None
    so_far = trace(found, "all pairs so far, with the 95 % interval")
    ups, downs = so_far["error_y"]["array"], so_far["error_y"]["arrayminus"]
    assert so_far["x"] == [2, 3, 4, 5, 6]
    assert so_far["y"][-1] + ups[-1] == pytest.approx(finding.high)
    assert so_far["y"][-1] - downs[-1] == pytest.approx(finding.low)
    assert ups[-1] < ups[0]
    assert trace(found, "a pair")["y"][0] == pytest.approx(8.33 / 3.59, rel=0.01)
    assert found.summary == (
        "6 pairs in turn: 2.33 times faster (2.24 to 2.42); each by itself shows 2.31 to 2.35."
    )


def test_of_a_bound_only_the_lower_end_is_drawn() -> None:
    found = figures(samples.at_least())["narrowing"]
    assert set(trace(found, "all pairs so far, with the 95 % interval")["error_y"]["array"]) == {0}
    assert "or more)" in found.summary


def test_a_pair_side_by_side_shows_the_pace_of_both_in_the_time_that_each_ran() -> None:
    found = figures(SAMPLES["side_by_side"])["slices"]
    for name, pace in (("best", 20 / 3.6), ("your defaults", 20 / 8.4)):
        line = trace(found, name)
        assert line["y"] == pytest.approx([pace] * len(line["y"]), rel=0.01)
        assert line["y"]
    spans = [bar["x"] for bar in drawing(found)["data"] if bar["mode"] == "lines"]
    turns = sorted((x[n], x[n + 1]) for x in spans for n in range(0, len(x), 3))
    assert [end for _, end in turns[:-1]] == pytest.approx([begin for begin, _ in turns[1:]])
    assert "Best (launch 9): 9 slices, 4.1 s, median pace 5.56." in found.summary


def test_behind_a_pair_there_is_a_shade_where_others_wanted_a_cpu() -> None:
    found = figures(SAMPLES["side_by_side"])["slices"]
    shades = [(shape["x0"], shape["x1"]) for shape in drawing(found)["layout"]["shapes"]]
    assert sorted(shades) == [(1.0, 1.5), (1.5, 2.0)]  # the second slice of each
    assert "others wanted a CPU as well (in 2 of 19 slices, at most 2 threads)" in found.summary


def test_of_a_program_without_a_log_a_pair_shows_who_ran() -> None:
    found = figures(samples.side_by_side())["slices"]
    assert "yaxis2" not in drawing(found)["layout"]
    assert {tuple(bar["y"][:1]) for bar in drawing(found)["data"] if bar["x"]} == {(0,), (1,)}


def test_where_the_defaults_fail_the_first_guess_that_worked_stands_beside_the_best() -> None:
    names = [side.name for side in sides(samples.failing())]
    assert names == ["your defaults", "first guess that worked", "best"]
    assert [side.name for side in sides(samples.not_pursued())] == ["best: your defaults"]


def test_the_line_of_a_knob_joins_the_fastest_setting_of_each_value() -> None:
    times = {
        setting(omp_threads=threads, iterator_workers=workers): 10.0 * threads + workers
        for threads in (10, 2, 1)
        for workers in (1, 2)
    }
    found = figures(study({BASELINE: 9.0, **times}))
    (knob,) = [f for f in found.values() if f.title == "Time against omp_threads"]
    line = trace(knob, "fastest setting")
    assert drawing(knob)["layout"]["xaxis"]["ticktext"] == ["1", "2", "10"]
    assert line["y"] == [11.0, 21.0, 101.0]
    assert len(trace(knob, "a run")["x"]) == 6
    assert "omp_threads=1: 11.0 s (one run)" in knob.summary
    axis = drawing(knob)["layout"]["yaxis"]
    assert axis["type"] == "log"  # 102 against 11
    assert axis["ticktext"] == ["10", "20", "50", "100", "200", "500", "1000", "2000", "5000"]


@pytest.mark.parametrize("lucky", [(1, 4), (1, 1), (2, 4)])
def test_a_setting_that_was_fast_once_is_not_named_instead_of_the_best(
    lucky: tuple[int, int],
) -> None:
    """Seven runs of the best, one of another that looks faster: of another value, or the same."""
    best = setting(omp_threads=2, iterator_workers=1)
    threads, workers = lucky
    made: list[samples.Made] = [(Purpose.SEARCH, best, 0.453)] * 7
    made += [(Purpose.SEARCH, setting(omp_threads=threads, iterator_workers=workers), 0.224)]
    made += [(Purpose.SEARCH, setting(omp_threads=1, iterator_workers=2), 0.9)]
    made += [(Purpose.SEARCH, setting(omp_threads=2, iterator_workers=2), 0.8)]
    data = launched([(Purpose.BASELINE, BASELINE, 0.9), *made], best=best)
    found = figures(dataclasses.replace(data, result=_with_best(data, best)))
    (knob,) = [f for f in found.values() if f.title == "Time against omp_threads"]
    assert knob.summary.startswith("The best setting with omp_threads=2: 0.453 s (95 % interval")
    (pair,) = [f for f in found.values() if f.title == "omp_threads and iterator_workers"]
    assert "the best is omp_threads=2 with iterator_workers=1: 0.453 s" in pair.summary
    said = "What looks faster than the best was launched less often."
    assert (said in knob.summary) == (threads != 2)
    assert said in pair.summary


def _with_best(data: StudyView, best: Setting) -> Result:
    (chosen,) = [each for each in data.measurements if each.setting == best]
    return dataclasses.replace(data.result, candidate=chosen)


def test_stopped_runs_of_a_knob_stand_where_they_were_going_or_at_their_bound() -> None:
    chosen = [setting(omp_threads=n) for n in (1, 2, 3)]
    made: list[samples.Made] = [
        (Purpose.SEARCH, chosen[0], 1.0),
        (Purpose.SEARCH, chosen[1], stopped(2.0, 8.0)),
        (Purpose.SEARCH, chosen[2], stopped(3.0)),
    ]
    found = figures(launched(made, best=chosen[0]))["knob-0"]
    assert trace(found, "stopped, projected")["y"] == [8.0]
    assert trace(found, "stopped, no better")["y"] == [3.0]


def test_the_weightiest_knobs_and_pairs_come_first_and_the_rest_is_extra() -> None:
    data = large(count=120)
    weights = {"knob_5": 0.6, "knob_2": 0.3}
    found = figures(data, weights)
    knobs = [f for f in found.values() if f.key.startswith("knob-")]
    assert [f.title.split()[-1] for f in knobs][:2] == ["knob_5", "knob_2"]
    assert len(knobs) == 10
    assert [f.is_extra for f in knobs] == [False] * 4 + [True] * 6
    pairs = [f for f in found.values() if f.key.startswith("pair-")]
    assert pairs[0].title == "knob_2 and knob_5"
    assert len(pairs) == 28  # of the eight weightiest
    assert sum(not f.is_extra for f in pairs) == 2


def test_a_cell_of_a_pair_is_the_fastest_setting_with_both_values() -> None:
    times = {
        setting(omp_threads=threads, iterator_workers=workers, communicator=name): cost
        for threads in (1, 2)
        for workers in (1, 2)
        for name, cost in (("flat", 2.0), ("naive", 1.0 + threads))
    }
    found = figures(study({BASELINE: 9.0, **times}))
    (pair,) = [f for f in found.values() if f.title == "omp_threads and iterator_workers"]
    (heat,) = drawing(pair)["data"]
    assert heat["z"] == [[pytest.approx(math.log10(2.0))] * 2] * 2
    assert heat["text"] == [["2.00", "2.00"], ["2.00", "2.00"]]


def test_windows_that_were_left_early_stand_where_they_were_going() -> None:
    """Their few iterations took less than any full run: that is no place for a dot."""
    made = launched([(Purpose.SEARCH, setting(omp_threads=1), 1.0)] * 2, best=None)
    kinds = ((BASELINE, stopped(0.5, 8.0)), (setting(omp_threads=2), stopped(0.25, 4.0)))
    window = Window(1, ("omp_threads",), 0.0, 0.1, 1, 5, 0.1, 0.01, 1.0)
    left = [
        dataclasses.replace(
            made.records[0],
            number=3 + n,
            setting=of,
            outcome=dataclasses.replace(made.records[0].outcome, ending=ending, window=window),
        )
        for n, (of, ending) in enumerate(kinds)
    ]
    found = figures(dataclasses.replace(made, records=(*made.records, *left)))["history"]
    assert trace(found, "defaults, projected")["y"] == [8.0]
    assert trace(found, "stopped, projected")["y"] == [4.0]
    assert trace(found, "stopped, projected")["marker"]["symbol"] == "circle-open"


def test_the_history_has_bounds_failures_and_the_confirmation() -> None:
    found = figures(samples.at_least())["history"]
    assert trace(found, "stopped, no better")["y"] == [4.1]
    assert trace(found, "defaults, stopped")["y"] == [13.5, 9.0, 9.0, 9.0]
    assert trace(found, "crashed")["y"] == [0.0]
    (shade,) = [s for s in drawing(found)["layout"]["shapes"] if s["type"] == "rect"]
    assert (shade["x0"], shade["x1"]) == (7.5, 14.5)
    assert "1 failed (crashed)" in found.summary
    line = trace(found, "fastest run so far")
    assert line["y"] == sorted(line["y"], reverse=True)


def test_kinds_of_failures_have_shapes_of_their_own() -> None:
    kinds = [FailureKind.STALLED, FailureKind.OUT_OF_MEMORY, FailureKind.STALLED]
    made: list[samples.Made] = [(Purpose.GUESS, FAST, 1.0)]
    made += [(Purpose.SEARCH, NEXT, Failed(kind, "x")) for kind in kinds]
    found = figures(launched(made))["history"]
    assert trace(found, "stalled")["x"] == [2, 4]
    symbols = [trace(found, name)["marker"]["symbol"] for name in ("stalled", "out of memory")]
    assert len(set(symbols)) == 2


def test_timelines_of_defaults_and_best_share_their_axes() -> None:
    found = figures(watched(samples.faster()))["cpu"]
    layout = drawing(found)["layout"]
    assert layout["yaxis2"]["matches"] == "y"
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1]
    assert {t.get("yaxis") for t in drawing(found)["data"]} == {"y", "y2"}
    assert [a["text"] for a in layout["annotations"]] == ["<b>your defaults</b>", "<b>best</b>"]
    assert all(None not in t["y"] for t in drawing(found)["data"])  # a stack has no holes
    assert found.summary.startswith("Your defaults (launch 12), cores: user ")


def test_what_was_not_seen_is_said_once_with_its_reason() -> None:
    found = figures(watched(samples.faster(), gpu=False))
    assert found["not-seen"].summary == (
        "Nothing was seen of: GPU utilisation over time; GPU power over time."
        " No GPU was seen: NVML is not installed. This host has no GPU."
    )
    assert GPU_GAP
    assert "gpu" not in found
    nothing = figures(samples.faster())["not-seen"]
    assert nothing.drawing is None
    assert nothing.summary.endswith("Nothing was recorded of these launches.")


def test_a_long_study_is_thinned_out() -> None:
    for figure in figures(watched(large(count=1500))).values():
        for each in drawing(figure)["data"] if figure.drawing else ():
            assert len(each["x"]) <= 600
        assert figure.table is None or len(figure.table.rows) <= MOST_ROWS


@given(st.lists(st.integers(), max_size=60), st.integers(2, 20))
def test_what_is_thinned_keeps_order_and_ends(items: list[int], most: int) -> None:
    found = style.thinned(items, most)
    assert len(found) == min(len(items), most)
    if items:
        assert (found[0], found[-1]) == (items[0], items[-1])
    rest = iter(items)
    assert all(any(each == other for other in rest) for each in found)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=12))
def test_the_interval_holds_the_median_within_the_range(costs: list[float]) -> None:
    found = centre(costs)
    assert min(costs) * 0.999999 <= found.low <= found.median <= found.high
    assert found.high <= max(costs) * 1.000001
    assert bool(found.how) == (len(costs) > 1)


@given(st.text())
def test_foreign_text_is_inert_to_plotly(text: str) -> None:
    found = style.inert(text)
    assert not set(found) & set("<>$")
    assert all(part.startswith(("amp;", "lt;", "gt;", "#36;")) for part in found.split("&")[1:])
    assert found.isprintable()


def test_a_rate_is_drawn_in_its_own_unit_and_its_bounds_point_down() -> None:
    rate = ObjectiveSpec("pattern", pattern="x", unit="ns/day", maximize=True)
    spec = dataclasses.replace(samples.SPEC, objective=rate)
    chosen = [setting(omp_threads=n) for n in (1, 2, 3)]
    made: list[samples.Made] = [
        *[(Purpose.SEARCH, chosen[0], cost) for cost in (0.1, 0.125)],
        (Purpose.SEARCH, chosen[1], 0.5),
        (Purpose.SEARCH, chosen[2], stopped(0.25)),
    ]
    found = figures(launched(made, best=chosen[0], spec=spec))
    line = trace(found["knob-0"], "fastest setting")
    assert line["y"] == [pytest.approx(1 / 0.1125), 2.0]
    up, down = (line["error_y"][key][0] for key in ("array", "arrayminus"))
    assert (line["y"][0] - down, line["y"][0] + up) == pytest.approx((8.0, 10.0))
    bound = trace(found["knob-0"], "stopped, no better")
    assert (bound["y"], bound["marker"]["symbol"]) == ([4.0], "triangle-down-open")
    assert trace(found["history"], "fastest run so far")["y"] == [10.0, 10.0]
    assert drawing(found["history"])["layout"]["yaxis"]["title"]["text"] == "ns/day"
    assert "omp_threads=1: 8.89 ns/day (range 8.00 to 10.0 ns/day)" in found["knob-0"].summary
