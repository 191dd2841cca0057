"""Two studies side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import study
from tuner.model.errors import UsageError
from tuner.results import compare as compare_module
from tuner.results.compare import BEST, DEFAULTS, Comparison, read
from tuner.results.exporters.json import export
from tuner.stats.scaling import SpeedUp


def document(best: list[float], defaults: list[float], **result: Any) -> dict[str, Any]:
    """An export whose best setting and baseline have these figures."""
    found: dict[str, Any] = json.loads(export(study()).text)
    found["result"] |= result
    best_setting = found["result"]["best"]["setting"]
    found["result"]["best"] = {"setting": best_setting, "samples": [{"figure": f} for f in best]}
    found["launches"] = [launch(best_setting, figure) for figure in best]
    found["launches"] += [launch({}, figure) for figure in defaults]
    return found


def launch(setting: dict[str, Any], figure: float, **changes: Any) -> dict[str, Any]:
    """A launch of an export, made to confirm."""
    made = {"setting": setting, "counts_for": setting, "samples": [{"figure": figure}]}
    return made | {"purpose": "confirm", "window": None, "exclusion": None} | changes


def compare(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    sides = {"main.json": before, "branch": after}
    return compare_module.compare(*(read(name, json.dumps(each)) for name, each in sides.items()))


def compared(before: list[float], after: list[float], **result: Any) -> Comparison:
    return compare(document(before, [8.0, 8.1], **result), document(after, [8.0, 8.1], **result))


ONE = [1.00, 1.01, 0.99, 1.00, 1.02, 0.98]


def test_the_best_and_each_setting_that_both_have_are_compared() -> None:
    found = compared(ONE, [0.5, 0.51, 0.49, 0.5, 0.5, 0.5])
    assert next(row.what for row in found.rows) == BEST
    assert DEFAULTS in {row.what for row in found.rows}
    assert found.best.gain.low < 2 < found.best.gain.high
    assert found.verdict(0.05).startswith("better: 2 (")
    (defaults,) = (row for row in found.rows if row.what == DEFAULTS)
    assert defaults.gain.low < 1 < defaults.gain.high


def test_more_of_a_rate_is_better() -> None:
    twice = [2 * each for each in ONE]
    assert compared(ONE, twice).verdict(0.05).startswith("worse: it takes 2 (")
    rate = {"unit": "ns/day", "direction": "maximize"}
    assert compared(ONE, twice, **rate).verdict(0.05).startswith("better: 2 (")


def test_it_is_worse_only_if_that_is_proven_beyond_the_share() -> None:
    slower = compared(ONE, [1.2 * each for each in ONE])
    assert slower.is_worse(0.05) and not slower.is_worse(0.2) and not slower.is_worse(0.5)
    assert slower.verdict(0.05).endswith("; worse by more than 5 %")
    assert slower.verdict(0.5).endswith("; not worse by more than 50 %")
    assert not compared([1.0], [1.06]).is_worse(0.05), "one launch of each proves little"


def test_a_difference_that_is_not_worth_having_is_none() -> None:
    little = compared(ONE, [1.005 * each for each in ONE[:1]] + [1.006] * 5)
    assert "no difference above 1 % is proven: 0.99" in little.verdict(0.05)
    steady = compared([1.0] * 6, [1.0061, 1.0062, 1.0063, 1.0064, 1.0061, 1.0062])
    assert "1 % is proven: 0.994 (0.994 to 0.994) times" in steady.verdict(0.05)
    assert steady.is_worse(0.004)
    assert steady.verdict(0.004).startswith("worse: it takes ")
    assert steady.verdict(0.004).endswith("; worse by more than 0.4 %")


def test_an_open_verdict_names_the_launches_that_are_missing() -> None:
    few = compared([1.0, 1.2], [1.02, 1.22, 1.03])
    assert "no difference above 1 % is proven" in few.verdict(0.1)
    told = "10 % is open: it takes 6 launches of each, 4 and 3 are missing (--remeasure"
    assert told in few.verdict(0.1)
    disagree = compared([1.0, 9.0], [1.0, 9.0])
    assert "1 (runs disagree)" in disagree.verdict(0.05) and "missing" in disagree.verdict(0.05)
    noisy = [0.9, 1.1, 1.0, 0.95, 1.05, 1.0]
    six = compared(noisy, noisy[::-1])
    assert six.best.is_open(0.05) and not six.best.is_open(0.5)
    assert "5 % is open: about " in six.verdict(0.05)
    assert "more launches of each would tell (--remeasure" in six.verdict(0.05)
    near = compared(noisy, [1.05 * each for each in noisy[::-1]])
    assert "is open: it is too near to 5 % to tell" in near.verdict(0.05)


def test_only_whole_launches_that_count_are_compared() -> None:
    made = document([1.0, 0.5], [8.0])
    best = made["result"]["best"]["setting"]
    made["launches"] += [
        launch(best, 0.5, window={"job": 1}),
        launch(best, 0.6, counts_for=None, exclusion={"text": "disturbed"}),
        launch({**best, "opencv_threads": 1}, 0.7),  # the program has no OpenCV
    ]
    made["launches"][-1]["counts_for"] = best
    assert compare(made, made).best.before == [1.0, 0.5, 0.7]
    made["launches"] = [each | {"window": {"job": 1}} for each in made["launches"]]
    with pytest.raises(UsageError, match=r"main.json has measured its best setting in windows of"):
        compare(made, made)


def test_launches_of_the_search_do_not_speak_for_the_best_if_others_can() -> None:
    both, searched = document([1.0, 1.1], [8.0]), document([0.7], [8.0])
    both["launches"].append(launch(both["result"]["best"]["setting"], 0.5, purpose="search"))
    searched["launches"][0]["purpose"] = "search"
    found = compare(both, searched)
    assert (found.best.before, found.best.after) == ([1.0, 1.1], [0.7])
    assert found.json(0.05)["best_launches"] == {
        "before": "made to compare it",
        "after": "of the search, which chose it for its times",
    }
    (_, row) = (each for each in found.rows if each.what != DEFAULTS)
    assert row.before == [1.0, 1.1, 0.5], "the row of the setting has all of them"


def test_pairs_of_launches_take_the_place_of_those_of_the_best() -> None:
    gain = SpeedUp(1.0, 0.97, 1.03)
    by_pairs = compared([1.0, 1.2], [1.02, 1.22]).with_best((ONE, ONE), gain, is_side_by_side=True)
    assert (by_pairs.best.before, by_pairs.best.after, by_pairs.best.gain) == (ONE, ONE, gain)
    assert "--remeasure" not in by_pairs.verdict(0.001)
    assert by_pairs.json(0.05)["best_launches"] == dict.fromkeys(
        ("before", "after"), "made side by side by --remeasure"
    )


def test_what_else_differs_is_named() -> None:
    before, after = document(ONE, ONE), document(ONE, ONE)
    assert not compare(before, after).differences
    after["study"]["machine"]["cpu_model"] = "Other CPU"
    after["study"]["launcher"]["version"] = "5.0.12"
    after["study"]["environment"] = [["OMP_PROC_BIND", "close"]]
    del after["study"]["prepare"], after["study"]["machine"]["gpus"]  # by an older version
    after["result"]["best"]["setting"] = {"omp_threads": 2}
    after["launches"].append(launch({"omp_threads": 2}, 1.0))
    assert len(compare(before, after).differences) == 4
    del before["study"]["environment"]
    assert len(compare(before, after).differences) == 3
    for side, torch in ((before, "2.4.0"), (after, "2.5.1")):
        packages = [["python", "3.11.7"], ["torch", torch]]
        assert len(compare(before, after).differences) == 3, "nothing is known of the other"
        side["launches"][-1]["observation"] = {"ranks": [{"packages": packages}]}
    before["study"]["environment"] = []
    assert set(compare(before, after).differences) == {
        "machine.cpu_model: Some CPU -> Other CPU",
        "launcher.version: 5.0.11 -> 5.0.12",
        "environment.OMP_PROC_BIND: none -> close",
        "packages.torch: 2.4.0 -> 2.5.1",
        "best setting: communicator=naive iterator_workers=1 omp_threads=1 -> omp_threads=2",
    }


def test_studies_of_different_figures_are_refused() -> None:
    named = (
        'main.json measures .*"s" direction="minimize", but branch .*unit="ns/day" direction="max'
    )
    with pytest.raises(UsageError, match=named):
        compare(document(ONE, ONE), document(ONE, ONE, unit="ns/day", direction="maximize"))
    other = document(ONE, ONE)
    other["study"]["objective"]["key"] = "validation_time"
    with pytest.raises(UsageError, match=r'but branch measures .*key="validation_time"'):
        compare(document(ONE, ONE), other)
    nothing = document(ONE, ONE)
    nothing["result"]["best"]["samples"] = [{"figure": None}]
    with pytest.raises(UsageError, match="has measured nothing"):
        compare(document(ONE, ONE), nothing)
    nothing["result"]["best"] = None
    with pytest.raises(UsageError, match="has measured nothing"):
        compare(document(ONE, ONE), nothing)


TIMES = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8)


@given(TIMES, TIMES)
def test_the_other_way_round_the_gain_is_the_inverse(
    before: list[float], after: list[float]
) -> None:
    there, back = compared(before, after).best.gain, compared(after, before).best.gain
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1) or (there.low, back.high) == (0, float("inf"))


@pytest.mark.parametrize("figure", ["fast", -1, 0, 1e308, float("nan"), True, [], 10**400])
def test_what_is_no_figure_is_refused_with_its_place(figure: Any) -> None:
    odd = document([1.0, 1.0], ONE)
    odd["result"]["best"]["samples"][1]["figure"] = figure
    with pytest.raises(UsageError) as caught:
        read("main.json", json.dumps(odd))
    assert caught.value.message.startswith("main.json: result.best.samples.1.figure is ")
    assert caught.value.hint == "export it again: tune export STUDY -o main.json"


def test_what_an_export_lacks_or_has_in_another_form_is_named() -> None:
    text = json.dumps(document([1.0, 2.0], ONE))
    for was, now, said in (
        ('"direction": "minimize"', '"x": 1', "result.direction: Field required"),
        (
            '"minimize"',
            '"up"',
            "result.direction is 'up': Input should be 'minimize' or 'maximize'",
        ),
        (
            '"omp_threads": 1',
            '"omp_threads": []',
            "omp_threads.int is []: Input should be a valid integer",
        ),
        ('"study": {', '"study": 1, "other": {', "study is 1: Input should be a valid dictionary"),
        (
            '"environment": []',
            '"environment": [["A"]]',
            "environment.0 is ['A']: List should have at least 2 items",
        ),
        (
            "tuner.export/1",
            "tuner.show/2",
            "schema is 'tuner.show/2': Input should be 'tuner.export/1'",
        ),
        ("{", "[" * 5000, "no JSON that can be read"),
    ):
        assert was in text
        with pytest.raises(UsageError) as caught:
            read("main.json", text.replace(was, now))
        assert said in caught.value.message and caught.value.message.startswith("main.json")
    missing = document([1.0, 2.0], ONE)
    missing["launches"][0]["samples"][0]["figure"] = None
    assert read("main.json", json.dumps(missing)).best == [2.0]
