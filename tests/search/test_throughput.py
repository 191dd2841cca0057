"""What is learned from a log, however late it could be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.model import Progress
from tuner.search.throughput import Pace, startup_s

STARTUP_S = 3.0

paces_s = st.floats(0.001, 10)
extras_s = st.floats(0, 100)
intervals = st.integers(1, 500)
counts = st.integers(2, 40)


def log(
    entries: int, every: int, pace_s: float, extra_s: float = 0.0, burst: int | None = 1
) -> list[Progress]:
    """An even log with a slow first iteration; ``burst`` entries at once, ``None``: no looks."""
    times = [(every * k, extra_s + every * k * pace_s) for k in range(1, entries + 1)]
    if burst is None:
        return [Progress(*each) for each in times]
    ends = [min(entries, (k // burst + 1) * burst) - 1 for k in range(entries)]
    return [
        Progress(*each, STARTUP_S + times[end][1]) for each, end in zip(times, ends, strict=True)
    ]


@given(counts, intervals, paces_s, extras_s, st.sampled_from([1, 4, 100, None]))
def test_an_even_log_tells_how_much_the_first_iterations_cost_more(
    entries: int, every: int, pace_s: float, extra_s: float, burst: int | None
) -> None:
    pace = Pace.of(log(entries, every, pace_s, extra_s, burst))
    assert pace is not None
    assert pace.warm_up_iterations == pytest.approx(extra_s / pace_s, rel=1e-3, abs=0.1)
    assert pace.cv == (pytest.approx(0.0, abs=1e-3) if entries >= 4 else None)
    shown = min(burst or 1, entries - (burst or 1))  # of a burst the last entry counts
    assert pace.interval == (every * shown if shown > 0 else None)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 5)), min_size=1, max_size=10),
    st.floats(0, 60),
)
def test_a_late_look_never_makes_the_start_up_shorter(
    steps: Sequence[tuple[float, float]], true_s: float
) -> None:
    """An entry is seen once it was written, or later: the start-up is not underestimated."""
    entries, elapsed_s, seen_s = [], 0.0, 0.0
    for k, (step_s, late_s) in enumerate(steps, start=1):
        elapsed_s += step_s
        seen_s = max(seen_s, true_s + elapsed_s + late_s)
        entries.append(Progress(k, elapsed_s, seen_s))
    startup = startup_s(entries)
    assert startup is not None and startup >= true_s - 1e-9
