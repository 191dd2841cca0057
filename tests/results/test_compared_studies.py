from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.study_samples import FAST, NEXT, SPEC, record, with_outcome
from tuner.model import Observation, Purpose, RankView, SideBySide
from tuner.results.compared_studies import Comparison, differences
from tuner.stats.pairs import IN_TURN, SIDE_BY_SIDE
from tuner.study.pairing import Pairs

NAMES = ("main", "branch")
HELD = replace(SPEC, fixed=FAST)
ONE = [1.00, 1.01, 0.99, 1.00, 1.02, 0.98]
NOISY = [0.9, 1.1, 1.0, 0.95, 1.05, 1.0]


def compared(
    before: Sequence[float],
    after: Sequence[float],
    share: float = 0.05,
    *,
    in_turn: bool = False,
    **changes: Any,
) -> Comparison:
    """Both by pairs with these costs; the changes are those of the second one's study."""
    beside = None if in_turn else SideBySide(1)
    launches = [
        tuple(
            with_outcome(record(1, FAST, cost, purpose=Purpose.RECORD), side_by_side=beside)
            for cost in pair
        )
        for pair in zip(before, after, strict=True)
    ]
    pairs = Pairs(launches, not in_turn, IN_TURN if in_turn else SIDE_BY_SIDE)  # type: ignore[arg-type]
    return Comparison(NAMES, (HELD, replace(HELD, **changes)), pairs, share)


@pytest.mark.parametrize(
    ("before", "after", "share", "begin", "end"),
    [
        (ONE, [f / 2 for f in ONE], 0.05, "better: 2 (", "; not worse by more than 5 %"),
        (ONE, [1.2 * f for f in ONE], 0.05, "worse: it takes 1.2 (", "; worse by more than 5 %"),
        # A difference that is not worth having is none.
        (ONE, [1.005 * f for f in ONE], 0.05, "no difference above 1 % is proven: 0.99", ""),
        # What is not proven is open.
        (NOISY, NOISY[::-1], 0.05, "no difference above 1 % is proven", "is open"),
        (NOISY, NOISY[::-1], 0.5, "no difference above 1 %", "not worse by more than 50 %"),
    ],
)
def test_the_verdict(
    before: list[float], after: list[float], share: float, begin: str, end: str
) -> None:
    comparison = compared(before, after, share)
    verdict = comparison.verdict()
    assert verdict.startswith(begin) and verdict.endswith(end), verdict
    assert comparison.is_worse(share) is ("; worse by" in verdict)
    assert comparison.is_open is verdict.endswith("is open")


def test_both_are_shown_with_their_settings() -> None:
    comparison = compared(ONE, ONE, in_turn=True, fixed=NEXT)
    held = "omp_threads=1 iterator_workers={} communicator=naive"
    assert comparison.table() == [
        ["main", held.format(1), "1", "6 in turn"],
        ["branch", held.format(2), "1", "6 in turn"],
    ]
    assert "with different settings" in comparison.verdict()


def test_figures_are_in_the_unit_of_the_studies() -> None:
    rate = replace(SPEC.objective, unit="ns/day", maximize=True)
    comparison = replace(compared([0.5] * 3, [0.25] * 3), specs=[replace(HELD, objective=rate)] * 2)
    document = comparison.json([])
    assert (document["before"]["figures"], document["after"]["figures"]) == ([2.0] * 3, [4.0] * 3)
    assert document["verdict"].startswith("better: 2 (") and document["unit"] == "ns/day"


def test_what_else_differs_is_named() -> None:
    def launch(*packages: tuple[str, str]) -> Any:
        rank = RankView(0, 1, 0, (0,), packages=packages)
        return with_outcome(record(1, FAST, 1.0), observation=Observation((rank,)))

    old, new = launch(("python", "3.11.7"), ("torch", "2.4.0")), launch(("torch", "2.5.1"))
    before = replace(HELD, folder="/main", programs=(("train.py", "1234"),))
    after = replace(
        before,
        folder="/branch",
        programs=(("train.py", "5678"),),
        launcher=replace(SPEC.launcher, version="5.0.12"),
        environment=(("OMP_PROC_BIND", "close"),),
        fixed=NEXT,
    )
    assert differences([before, replace(before, folder="/branch")], [[old], [old]]) == []
    (setting, *others) = sorted(differences([before, after], [[launch()], [new]]))
    assert setting.startswith("MPI: ") and setting.endswith("5.0.12")
    assert others == [
        "OMP_PROC_BIND: none -> close",
        "best setting: omp_threads=1 iterator_workers=1 communicator=naive"
        " -> omp_threads=1 iterator_workers=2 communicator=naive",
        "file train.py: 1234 -> 5678",
    ], "nothing is known of the packages of the first"
    assert {"python: 3.11.7 -> none", "torch: 2.4.0 -> 2.5.1"} <= set(
        differences([before, after], [[old], [new]])
    )
