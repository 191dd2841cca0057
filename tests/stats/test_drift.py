"""A machine that changes is told from one that is only noisy."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from tuner.stats import drift
from tuner.stats.drift import _inversions, _two_sided


def noisy(rng: random.Random, sizes: list[int], per_launch: float = 0.0) -> list[drift.Times]:
    """Launches of several settings in turn, each 1 % to 30 % noisy with an outlier now and then."""
    when = [number for number, size in enumerate(sizes) for _ in range(size)]
    rng.shuffle(when)
    groups: list[list[tuple[float, float]]] = [[] for _ in sizes]
    spread = [rng.choice((0.01, 0.05, 0.3)) for _ in sizes]
    typical = [rng.uniform(1, 50) for _ in sizes]
    for moment, group in enumerate(when):
        noise = rng.gauss(0, spread[group]) + (math.log(2.5) if rng.random() < 0.05 else 0.0)
        groups[group].append((moment, typical[group] * math.exp(noise + per_launch * moment)))
    return [*groups]


@pytest.mark.parametrize("sizes", [(3,), (4,), (2, 3), (3, 3)], ids=str)
def test_the_orders_are_counted_right(sizes: tuple[int, ...]) -> None:
    counted: Counter[int] = Counter()
    for orders in itertools.product(*(itertools.permutations(range(n)) for n in sizes)):
        counted[sum(a > b for o in orders for a, b in itertools.combinations(o, 2))] += 1
    assert _inversions(sizes) == tuple(counted[n] for n in range(max(counted) + 1))


def test_many_pairs_are_as_good_as_normal() -> None:
    sizes = (24, 24, 12)
    counts = _inversions(sizes)
    assert len(counts) - 1 > drift._EXACT_PAIRS
    for falling in (220, 240, 300):
        exact = 2 * sum(counts[: falling + 1]) / sum(counts)
        assert _two_sided(falling, sizes) == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("sizes", [[6, 6], [10, 10], [7, 24, 24], [10] * 8], ids=str)
def test_noise_is_not_called_drift(sizes: list[int]) -> None:
    """At most 1 % of the studies: the bound lies three standard deviations above."""
    rng = random.Random(str(sizes))
    runs = 1000
    claimed = sum(drift.drift(noisy(rng, sizes)) is not None for _ in range(runs))
    assert claimed <= runs * drift.ERROR + 3 * math.sqrt(runs * drift.ERROR)


def test_a_drift_is_found_with_its_size() -> None:
    """In steps of 1 % a launch, and 3 % noisy; without an outlier."""
    rng = random.Random(3)
    one = [
        (number, 5.0 * math.exp(0.01 * number + rng.gauss(0, 0.03))) for number in range(0, 24, 2)
    ]
    two = [
        (number, 9.0 * math.exp(0.01 * number + rng.gauss(0, 0.03))) for number in range(1, 24, 2)
    ]
    change = drift.drift([one, two])
    assert change is not None
    assert change.launches == 24
    assert change.ratio == pytest.approx(math.exp(0.23), rel=0.1)
    backwards = [[(at, 1 / time_s) for at, time_s in times] for times in (one, two)]
    faster = drift.drift(backwards)
    assert faster is not None
    assert faster.ratio == pytest.approx(1 / change.ratio)


def test_a_drift_too_small_to_matter_is_none() -> None:
    assert drift.drift([[(number, 1 + number * 1e-4) for number in range(30)]]) is None


def test_few_launches_claim_nothing() -> None:
    assert drift.drift([]) is None
    assert drift.drift([[(1, 2.0)], [(2, 3.0)]]) is None
    assert drift.drift([[(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)]]) is None


def test_equal_times_are_no_drift() -> None:
    assert drift.drift([[(number, 1.0) for number in range(20)]]) is None
