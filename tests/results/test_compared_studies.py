from __future__ import annotations

import json
from typing import Any

import pytest

from tests.study_samples import study
from tuner.model.errors import UsageError
from tuner.results import compared_studies
from tuner.results.compared_studies import BEST, DEFAULTS, Comparison, read
from tuner.results.exporters.json import export
from tuner.stats.scaling import SpeedUp

ONE = [1.00, 1.01, 0.99, 1.00, 1.02, 0.98]
NOISY = [0.9, 1.1, 1.0, 0.95, 1.05, 1.0]
RATE = {"unit": "ns/day", "direction": "maximize"}


def launch(setting: dict[str, Any], figure: float, **changes: Any) -> dict[str, Any]:
    """A launch of an export, made to confirm."""
    made = {"setting": setting, "counts_for": setting, "samples": [{"figure": figure}]}
    return made | {"purpose": "confirm", "window": None, "exclusion": None} | changes


def document(best: list[float], defaults: list[float], **result: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(export(study()).text)
    made["result"] |= result
    best_setting = made["result"]["best"]["setting"]
    made["result"]["best"] = {"setting": best_setting, "samples": [{"figure": f} for f in best]}
    made["launches"] = [launch(best_setting, figure) for figure in best]
    made["launches"] += [launch({}, figure) for figure in defaults]
    return made


def compare(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    sides = {"main.json": before, "branch": after}
    return compared_studies.compare(*(read(name, json.dumps(each)) for name, each in sides.items()))


def compared(before: list[float], after: list[float], **result: Any) -> Comparison:
    return compare(document(before, [8.0, 8.1], **result), document(after, [8.0, 8.1], **result))


def test_the_best_and_each_setting_that_both_have_are_compared() -> None:
    comparison = compared(ONE, [0.5, 0.51, 0.49, 0.5, 0.5, 0.5])
    gains = {row.what: row.gain for row in comparison.rows}
    assert next(iter(gains)) == BEST and comparison.best.gain.low < 2 < comparison.best.gain.high
    assert gains[DEFAULTS].low < 1 < gains[DEFAULTS].high


@pytest.mark.parametrize(
    ("before", "after", "share", "begin", "end"),
    [
        (ONE, [f / 2 for f in ONE], 0.05, "seems better: 2 (", "; not worse by more than 5 %"),
        (ONE, [1.2 * f for f in ONE], 0.05, "seems worse: it takes 1.2 (", "by more than 5 %"),
        # A difference that is not worth having is none.
        (ONE, [1.005 * ONE[0], *[1.006] * 5], 0.05, "no difference above 1 % is proven: 0.99", ""),
        # What is not proven is open.
        (
            [1.0, 9.0],
            [1.0, 9.0],
            0.05,
            "no difference above 1 % is proven: 1 (too few runs that agree for an interval)",
            "is open",
        ),
        (NOISY, NOISY[::-1], 0.05, "no difference above 1 % is proven", "is open"),
        (NOISY, NOISY[::-1], 0.5, "no difference above 1 %", "not worse by more than 50 %"),
    ],
)
def test_the_verdict(
    before: list[float], after: list[float], share: float, begin: str, end: str
) -> None:
    comparison = compared(before, after)
    verdict, _, why = comparison.verdict(share).partition(" (stored launches prove nothing: ")
    assert verdict.startswith(begin) and verdict.endswith(end), verdict
    assert why == "the machine may have changed in between)"
    assert comparison.is_worse(share) is ("; worse by" in verdict)


def test_more_of_a_rate_is_better() -> None:
    assert "better" in compared(ONE, [2 * figure for figure in ONE], **RATE).verdict(0.05)


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
    comparison = compare(both, searched)
    assert (comparison.best.before, comparison.best.after) == ([1.0, 1.1], [0.7])
    assert comparison.json(0.05)["best_launches"] == {
        "before": "made to compare it",
        "after": "of the search, which chose it for its times",
    }
    (row,) = (row for row in comparison.rows[1:] if row.what != DEFAULTS)
    assert row.before == [1.0, 1.1, 0.5], "the row of the setting has all of them"


def test_pairs_of_launches_take_the_place_of_those_of_the_best() -> None:
    gain = SpeedUp(1.0, 0.97, 1.03)
    by_pairs = compared([1.0, 1.2], [1.02, 1.22]).with_best((ONE, ONE), gain, is_side_by_side=True)
    assert (by_pairs.best.before, by_pairs.best.after, by_pairs.best.gain) == (ONE, ONE, gain)
    assert "stored" not in by_pairs.verdict(0.001)
    assert by_pairs.json(0.05)["best_launches"] == dict.fromkeys(
        ("before", "after"), "made side by side for this comparison"
    )


def test_what_else_differs_is_named() -> None:
    before, after = document(ONE, ONE), document(ONE, ONE)
    assert not compare(before, after).differences
    after["study"]["machine"]["cpu_model"] = "Other CPU"
    after["study"]["launcher"]["version"] = "5.0.12"
    after["study"]["environment"] = [["OMP_PROC_BIND", "close"]]
    after["study"]["programs"] = [["train.py", "1234"]]
    after["result"]["best"]["setting"] = {"omp_threads": 2}
    after["launches"].append(launch({"omp_threads": 2}, 1.0))
    for side, torch in ((before, "2.4.0"), (after, "2.5.1")):
        assert len(compare(before, after).differences) == 5, "nothing is known of the other"
        packages = [["python", "3.11.7"], ["torch", torch]]
        side["launches"][-1]["observation"] = {"ranks": [{"packages": packages}]}
    assert set(compare(before, after).differences) == {
        "programs.train.py: none -> 1234",
        "machine.cpu_model: Some CPU -> Other CPU",
        "launcher.version: 5.0.11 -> 5.0.12",
        "environment.OMP_PROC_BIND: none -> close",
        "packages.torch: 2.4.0 -> 2.5.1",
        "best setting: communicator=naive iterator_workers=1 omp_threads=1 -> omp_threads=2",
    }

    assert "with different settings" in compare(before, after).verdict(0.05)


def test_studies_of_different_figures_or_of_none_are_refused() -> None:
    named = (
        'main.json measures .*"s" direction="minimize", but branch .*unit="ns/day" direction="max'
    )
    with pytest.raises(UsageError, match=named):
        compare(document(ONE, ONE), document(ONE, ONE, **RATE))
    other = document(ONE, ONE)
    other["study"]["objective"]["key"] = "validation_time"
    with pytest.raises(UsageError, match=r'but branch measures .*key="validation_time"'):
        compare(document(ONE, ONE), other)
    nothing = document(ONE, ONE)
    for best in ({"setting": {}, "samples": [{"figure": None}]}, None):
        nothing["result"]["best"] = best
        with pytest.raises(UsageError, match="has measured nothing"):
            compare(document(ONE, ONE), nothing)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        *(("2.0", figure) for figure in ('"fast"', "0", "1e308", "NaN", "1" * 400)),
        ('"direction": "minimize"', '"x": 1'),
        ('"environment": []', '"environment": [["A"]]'),
        ("tuner.export/1", "tuner.show/2"),
        ("{", "[" * 5000),
    ],
)
def test_what_is_no_export_is_refused(was: str, now: str) -> None:
    text = json.dumps(document([1.0, 2.0], ONE))
    assert was in text
    with pytest.raises(UsageError, match=r"main\.json is no export that can be read: ") as caught:
        read("main.json", text.replace(was, now))
    assert caught.value.hint == "export it again: tune export STUDY -o main.json"


def test_a_launch_without_a_figure_is_left_out() -> None:
    missing = document([1.0, 2.0], ONE)
    missing["launches"][0]["samples"][0]["figure"] = None
    assert read("main.json", json.dumps(missing)).best == [2.0]
