"""The simulated machine of `benchmarks/pairs.py` does each launch's work, no more and no less."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import pairs


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("works_s", [(4.0, 4.4), (0.1, 3.0), (4.0, 1.1), (2.0, 2.0)])
def test_both_launches_together_take_the_time_and_the_work_of_the_pair(
    works_s: tuple[float, float], first: int
) -> None:
    machine = pairs.Machine(0.2, np.random.default_rng(7))
    walls_s, end_s = pairs.pair(machine, 20.0, works_s, first)
    assert sum(walls_s) == pytest.approx(end_s - 20)
    begun, ended = np.interp((20.0, end_s), machine.times, machine.done)
    assert ended - begun == pytest.approx(sum(works_s))
