"""What comes next: a function of the launches so far, whoever asks and however often."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.study_surface import CONFIRMED, CRASH, SPEC, capped, played
from tuner.knobs.space import points
from tuner.model import BASELINE, Ending, Failed, Setting, StudyState
from tuner.study.findings import build
from tuner.study.policy import SearchThenConfirm, Step, Stop

came = st.one_of(st.floats(0.2, 8.0), st.floats(0.9, 1.1), st.just(CRASH))


@settings(max_examples=5)
@example([CRASH] * 4 + [1.0] * 3 + [CRASH] + [1.0] * 5, 0.0, ("omp_threads", 1), 0)
@given(
    st.lists(came, min_size=13, max_size=13),
    st.floats(0.0, 0.3),
    st.sampled_from([(), ("omp_threads", 1), ("omp_threads", 2), ("iterator_workers", 2)]),
    st.integers(0, 99),
)
def test_every_study_ends_and_hands_over_something_that_worked(
    times: list[float | Failed], spread: float, cap: tuple[str, int] | tuple[()], seed: int
) -> None:
    rng = Random(seed)
    everything = [BASELINE, *points(SPEC.knobs)]
    typical = dict(zip(everything, times, strict=True))

    def time_s(setting: Setting) -> float | Ending:
        value = typical.get(setting, 1.0)
        if rng.random() < spread / 3:
            return CRASH
        return value if isinstance(value, Failed) else value * math.exp(rng.gauss(0, spread))

    effects = capped(*cap) if cap else lambda _: ()
    history = played(replace(CONFIRMED, trials=8), time_s, effects=effects)
    policy = SearchThenConfirm()
    stop = policy.next(history)
    assert isinstance(stop, Stop)
    found = build(history, "tune.db", StudyState.FINISHED, stop.reason, policy.best(history))
    if found.best is not None:
        assert found.conclusion is not None and found.export is not None
        worked = {
            history.pooling.canonical(r.setting) for r in history.records if r.outcome.samples
        }
        stopped = found.baseline is not None and found.baseline.stopped is not None
        handed_over = history.pooling.canonical(found.export)
        assert handed_over in worked or (stopped and found.export == BASELINE)
    for length, made in enumerate(history.records):
        step = SearchThenConfirm().next(history.with_records(history.records[:length]))
        assert isinstance(step, Step)
        assert (step.purpose, step.setting) == (made.purpose, made.setting)
