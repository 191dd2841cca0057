from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_samples import record, setting
from tests.study_surface import SPEC, FakeRunner
from tuner.model import IntRange, Setting
from tuner.store import Store
from tuner.study import tune
from tuner.study.history import History
from tuner.study.importance import importance


def only_threads(setting: Setting) -> float:
    threads = setting.as_dict().get("omp_threads", 4)
    assert isinstance(threads, int)
    return float(threads)


def plan_of(store: Store) -> History:
    return History.judged(store.load(SPEC.name).spec, tuple(store.launches(SPEC.name)))


def of_a_study(folder: Path, trials: int) -> dict[str, float]:
    spec = replace(SPEC, trials=trials)
    tune(spec, storage=str(folder / "tune.db"), run=FakeRunner(only_threads))
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        return importance(plan_of(store))


def test_the_knob_that_matters_comes_first(tmp_path: Path) -> None:
    shares = of_a_study(tmp_path, 12)
    assert next(iter(shares)) == "omp_threads"
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["omp_threads"] > shares["iterator_workers"]


def test_what_tells_only_the_best_two_apart_is_not_important(tmp_path: Path) -> None:
    """Eight times of a real study: one thread is fast, workers make no difference but noise."""
    times = {(1, 1): 3.38, (1, 2): 3.61, (1, 3): 2.98, (1, 4): 3.04}
    times |= {(2, 1): 10.8, (2, 2): 27.6, (2, 3): 25.9, (2, 4): 26.4}

    def measured(setting: Setting) -> float:
        values = setting.as_dict()
        threads, workers = values.get("omp_threads", 2), values.get("iterator_workers", 2)
        assert isinstance(threads, int)
        assert isinstance(workers, int)
        return times[threads, workers]

    knobs = tuple(
        replace(knob, domain=IntRange(1, high))
        for knob, high in zip(SPEC.knobs, (2, 4), strict=True)
    )
    spec = replace(SPEC, knobs=knobs, trials=8)
    tune(spec, storage=str(tmp_path / "tune.db"), run=FakeRunner(measured))
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert importance(plan_of(store))["omp_threads"] > 0.9


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
