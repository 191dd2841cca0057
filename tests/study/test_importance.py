"""Which knobs make a setting fast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.study_samples import record, setting
from tests.study_surface import SPEC, played, surface
from tuner.model import IntRange, Setting
from tuner.study.history import History
from tuner.study.importance import FEWEST, importance


def test_the_knob_that_matters_comes_first() -> None:
    def only_threads(chosen: Setting) -> float:
        threads = chosen.as_dict().get("omp_threads", 4)
        assert isinstance(threads, int)
        return float(threads)

    shares = importance(played(replace(SPEC, trials=12), only_threads))
    assert next(iter(shares)) == "omp_threads"
    assert sum(shares.values()) == pytest.approx(1)
    assert importance(played(replace(SPEC, trials=3), only_threads)) == {}, "too few say nothing"


def test_what_tells_only_the_best_two_apart_is_not_important() -> None:
    """Eight times of a real study: one thread is fast, workers make no difference but noise."""
    times: dict[tuple[object, object], float] = {(1, 1): 3.38, (1, 2): 3.61, (1, 3): 2.98}
    times |= {(1, 4): 3.04, (2, 1): 10.8, (2, 2): 27.6, (2, 3): 25.9, (2, 4): 26.4}

    def measured(chosen: Setting) -> float:
        values = chosen.as_dict()
        return times[values.get("omp_threads", 2), values.get("iterator_workers", 2)]

    highs = zip(SPEC.knobs, (2, 4), strict=True)
    knobs = tuple(replace(knob, domain=IntRange(1, high)) for knob, high in highs)
    history = played(replace(SPEC, knobs=knobs, trials=8), measured)
    assert importance(history)["omp_threads"] > 0.9


def test_settings_that_were_stopped_count_as_what_they_were_heading_for() -> None:
    """Most are: what finished alone would tell of contenders only."""
    history = played(replace(SPEC, trials=12), surface)
    assert len({r.setting for r in history.records if r.outcome.samples}) < FEWEST
    assert set(importance(history)) == {"omp_threads", "iterator_workers"}


def test_knobs_that_exist_in_some_settings_only_are_no_reason_for_a_warning(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    threads, workers = SPEC.knobs
    spec = replace(SPEC, knobs=(threads, replace(workers, when=((threads.name, (1, 2)),))))
    settings = [setting(omp_threads=4)]
    settings += [setting(omp_threads=n, iterator_workers=m) for n in (1, 2) for m in (1, 2, 3)]
    records = [record(at, each, 1.0 + at) for at, each in enumerate(settings, start=1)]
    assert set(importance(History.judged(spec, tuple(records)))) == {
        "omp_threads",
        "iterator_workers",
    }
    assert [str(each.message) for each in recwarn] == []
    assert capfd.readouterr().err == ""
