"""The figures as what they draw and say; how they look is looked at in a browser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import study_samples as samples
from tests.study_samples import everything, launched, setting, stopped, study, watched
from tuner.model import BASELINE, ObjectiveSpec, Purpose
from tuner.results.report import plots, style
from tuner.results.report.style import Figure
from tuner.results.study_view import StudyView

SAMPLES = everything()


def figures(data: StudyView) -> dict[str, Figure]:
    return {figure.key: figure for figure in plots.build(data)}


def trace(figure: Figure, name: str) -> dict[str, Any]:
    (named,) = [trace for trace in figure.drawing["data"] if trace.get("name") == name]
    return dict(named)


@pytest.mark.parametrize("name", ["at_least", "side_by_side", "failing", "hostile"])
def test_every_figure_can_be_drawn_and_has_words_and_numbers(name: str) -> None:
    drawn = plots.build(SAMPLES[name])
    assert len({figure.key for figure in drawn}) == len(drawn)
    for figure in drawn:
        go.Figure(figure.drawing)  # refuses what Plotly does not know
        assert figure.summary.endswith(".")
        assert {len(row) for row in figure.table.rows} == {len(figure.table.head)}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("nothing", []),
        ("only_failures", ["search"]),
        ("faster", ["comparison", "runs", "search", "knob-0", "knob-1", "timeline"]),
    ],
)
def test_a_figure_is_there_only_if_it_has_something_to_draw(name: str, keys: list[str]) -> None:
    assert [*figures(SAMPLES[name])] == keys


@pytest.mark.parametrize("name", ["faster", "at_least", "side_by_side"])
def test_the_pairs_lead_to_the_interval_of_the_verdict(name: str) -> None:
    data = SAMPLES[name]
    figure, finding = figures(data)["comparison"], data.result.finding
    assert finding is not None
    together = trace(figure, "all pairs so far, with the 95 % interval")
    assert together["x"][-1] == finding.pairs
    up, down = (together["error_y"][end][-1] for end in ("array", "arrayminus"))
    high = finding.ratio if finding.high is None else finding.high  # of a bound the lower end
    assert (finding.ratio - down, finding.ratio + up) == pytest.approx((finding.low, high))
    assert len(trace(figure, "a pair")["y"]) == finding.pairs
    assert len(figure.table.rows) == finding.pairs


def test_what_is_inconclusive_is_not_called_faster() -> None:
    summary = figures(samples.inconclusive())["comparison"].summary
    assert "times as fast (" in summary and "faster" not in summary


def test_a_pair_shows_who_ran_when_how_fast_and_who_else_wanted_a_cpu() -> None:
    figure = figures(SAMPLES["side_by_side"])["slices"]
    for name, pace in (("best", 20 / 3.6), ("your defaults", 20 / 8.4)):
        paces = trace(figure, name)["y"]
        assert paces == pytest.approx([pace] * len(paces), rel=0.01)
    spans = [bar["x"] for bar in figure.drawing["data"] if bar["mode"] == "lines"]
    turns = sorted((x[n], x[n + 1]) for x in spans for n in range(0, len(x), 3))
    assert [end for _, end in turns[:-1]] == pytest.approx([begin for begin, _ in turns[1:]])
    shades = [(shape["x0"], shape["x1"]) for shape in figure.drawing["layout"]["shapes"]]
    assert shades == [(1.0, 1.5), (1.5, 2.0)]  # the second slice of each
    without_log = figures(samples.side_by_side())["slices"]
    assert "yaxis2" not in without_log.drawing["layout"]


def test_the_search_has_bounds_failures_and_what_led() -> None:
    figure = figures(samples.at_least())["search"]
    assert trace(figure, "a setting, projected")["y"] == [9.8]
    assert trace(figure, "defaults, projected")["y"] == [30.0]
    assert trace(figure, "defaults, no better")["y"] == [9.0] * 3
    assert len(trace(figure, "failed")["x"]) == 1
    line = trace(figure, "fastest run so far")
    assert line["y"] == sorted(line["y"], reverse=True)


def test_the_line_of_a_knob_joins_the_fastest_setting_of_each_value() -> None:
    times = {
        setting(omp_threads=threads, iterator_workers=workers): 10.0 * threads + workers
        for threads in (10, 2, 1)
        for workers in (1, 2)
    }
    figure = figures(study({BASELINE: 9.0, **times}))["knob-0"]  # which makes more of a difference
    assert figure.title == "Time against omp_threads"
    assert figure.drawing["layout"]["xaxis"]["ticktext"] == ["1", "2", "10"]
    assert trace(figure, "fastest setting")["y"] == [11.0, 21.0, 101.0]
    assert len(trace(figure, "a run")["x"]) == 6
    assert figure.drawing["layout"]["yaxis"]["type"] == "log"  # 102 against 11


def test_the_studys_best_stands_for_its_value_though_another_was_fast_once() -> None:
    best, lucky = (setting(omp_threads=2, iterator_workers=workers) for workers in (1, 4))
    made: list[samples.Made] = [
        (Purpose.BASELINE, BASELINE, 0.9),
        *[(Purpose.SEARCH, best, 0.453)] * 7,
        (Purpose.SEARCH, lucky, 0.224),
        (Purpose.SEARCH, setting(omp_threads=1, iterator_workers=2), 0.9),
    ]
    data = launched(made, best=best)
    (chosen,) = [m for m in data.measurements if m.setting == best]
    data = replace(data, result=replace(data.result, candidate=chosen))
    (figure,) = [f for f in plots.build(data) if f.title == "Time against omp_threads"]
    assert trace(figure, "fastest setting")["y"] == [0.9, 0.453]


def test_a_map_shows_the_fastest_setting_of_each_number_of_ranks_and_threads() -> None:
    figure = figures(SAMPLES["hybrid"])["ranks"]
    assert figure.table.head == ("ranks", "own threads", "1 thread", "2 threads", "4 threads")
    assert figure.table.rows == [
        ("1", "", "~9.80 s", "", "3.40 s"),
        ("2", "", "", "* 2.00 s", "failed"),
        ("4", "5.20 s", "2.60 s", "", ""),
    ]
    (heat_map,) = figure.drawing["data"]
    ((_, slow, none, other), (*_, best, failed), (own, second, *_)) = heat_map["z"]
    assert none is None and best < second < other < own < slow == failed
    settings = [setting(ranks=n, omp_threads=t) for n in range(1, 20) for t in range(1, 16)]
    many = study({each: 1.0 + n for n, each in enumerate(settings)}, SAMPLES["hybrid"].spec)
    table = figures(many)["ranks"].table
    assert (len(table.rows), len(table.head) - 1) == (12, 12)
    assert "ranks" not in figures(study(dict(zip(settings[:3], (1.0, 2.0, 3.0), strict=True))))


def test_the_timeline_has_a_row_for_what_was_seen_of_both() -> None:
    figure = figures(watched(samples.faster(), gpu=False))["timeline"]
    axes = [key for key in figure.drawing["layout"] if key.startswith("yaxis")]
    assert axes == ["yaxis", "yaxis2", "yaxis3"]
    legend = [t["name"] for t in figure.drawing["data"] if t["showlegend"]]
    assert legend == ["your defaults", "best"]
    assert "No GPU was seen: NVML is not installed." in figure.summary


def test_a_rate_is_drawn_in_its_own_unit_and_its_bounds_point_down() -> None:
    rate = ObjectiveSpec("pattern", pattern="x", unit="ns/day", maximize=True)
    chosen = [setting(omp_threads=n) for n in (1, 2, 3)]
    made: list[samples.Made] = [
        *[(Purpose.SEARCH, chosen[0], cost) for cost in (0.1, 0.125)],
        (Purpose.SEARCH, chosen[1], 0.5),
        (Purpose.SEARCH, chosen[2], stopped(0.25)),
    ]
    data = launched(made, best=chosen[0], spec=replace(samples.SPEC, objective=rate))
    drawn = figures(data)
    line = trace(drawn["knob-0"], "fastest setting")
    assert line["y"] == [pytest.approx(1 / 0.1125), 2.0]
    bound = trace(drawn["knob-0"], "a run, no better")
    assert (bound["y"], bound["marker"]["symbol"]) == ([4.0], "triangle-down-open")
    assert drawn["search"].drawing["layout"]["yaxis"]["title"]["text"] == "ns/day"


def test_a_long_study_is_thinned_out_evenly() -> None:
    items = list(range(1001))
    assert style.thinned(items, 5) == [0, 250, 500, 750, 1000]
    assert style.thinned(items[:4], 5) == [0, 1, 2, 3]


@given(st.text())
def test_foreign_text_is_inert_to_plotly(text: str) -> None:
    inert = style.inert(text)
    assert not set(inert) & set("<>$")
    assert all(part.startswith(("amp;", "lt;", "gt;", "#36;")) for part in inert.split("&")[1:])
    assert inert.isprintable()
