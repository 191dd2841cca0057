"""What an earlier study is to a search: first guesses and a prior, never a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.search.test_search_engine import SPACE, bowl, run, study
from tuner.knobs import Role
from tuner.model import Lesson, Purpose, Setting, Shown
from tuner.search import (
    Done,
    Key,
    KnobAxis,
    Proposal,
    RuntimeSampler,
    Search,
    SearchObservation,
)
from tuner.search.space import Grid
from tuner.search.transfer import nearest, translated

Time = Callable[[Key], float]


def shown(key: Key, log_ratio: float | None, **more: object) -> Shown:
    names = [knob.name for knob in SPACE.knobs]
    return Shown(Setting.of(zip(names, key, strict=True)), log_ratio, **more)  # type: ignore[arg-type]


def of(time: Time, every: int = 3) -> Lesson:
    """A part of what a study on the surface shows, its best among it."""
    grid = Grid(SPACE)
    assert grid.all is not None
    keys = [grid.key(row) for row in grid.all]
    best = min(keys, key=time)
    some = dict.fromkeys((best, *keys[::every]))
    demands = grid.demand(grid.rows(list(some)))
    return Lesson("earlier", tuple(
        shown(key, math.log(time(key) / time(best)), demand=float(demand))
        for key, demand in zip(some, demands, strict=True)
    ))  # fmt: skip


def far(key: Key) -> float:
    """The best is far from that of the bowl."""
    threads, workers, binding = key
    assert isinstance(threads, int)
    assert isinstance(workers, int)
    away = abs(math.log2(threads / 8)) + abs(math.log2(workers)) + (binding == "core") * 0.5
    return 10.0 * math.exp(0.4 * away)


def test_the_best_of_a_like_study_is_launched_among_the_first() -> None:
    history, _ = study(Search(SPACE, lesson=of(bowl)), bowl)
    assert (2, 4, "core") in [seen.setting for seen in history[:2]]


def test_a_study_that_misleads_hides_nothing() -> None:
    search = Search(SPACE, lesson=of(far))
    history, _ = study(search, bowl)
    assert search.best(history) == (2, 4, "core")


def test_nothing_more_is_taken_from_it_once_its_guess_is_slower_than_the_machines() -> None:
    search, history = Search(SPACE, lesson=of(far)), list[SearchObservation]()
    for _ in range(2):
        step = search.next(history)
        assert isinstance(step, Proposal)
        history.append(run(search, history, step, bowl))
    assert {seen.setting for seen in history} == {(4, 4, "none"), (8, 1, "none")}
    others = (Purpose.GUESS, (1, 1, "none")), (Purpose.BASELINE, (8, 8, "none"))
    for purpose, other in others:
        history.append(SearchObservation(other, "finished", purpose, 30.0, bowl(other)))
    assert search.next(history) == Search(SPACE).next(history)


def test_what_was_taken_back_once_is_not_believed_later() -> None:
    """A setting that should be slow was faster than the lesson's best: others change nothing."""
    lesson = of(far)
    guess, slow = (8, 1, "none"), (1, 8, "core")
    own = [(key, bowl(key)) for key in SPACE.guesses]
    seen = [(guess, 20.0), *((key, 25.0) for key, _ in own), (slow, 15.0), ((8, 2, "none"), 12.0)]
    history = [
        SearchObservation(key, "finished", Purpose.SEARCH, time_s + 2, time_s)
        for key, time_s in seen
    ]
    assert SPACE.baseline is not None
    history.append(SearchObservation(SPACE.baseline, "finished", Purpose.BASELINE, 42.0, 40.0))
    assert Search(SPACE, lesson=lesson).next(history) == Search(SPACE).next(history)


def test_the_baseline_is_launched_all_the_same() -> None:
    history, _ = study(Search(SPACE, lesson=of(bowl)), bowl)
    assert [seen.setting for seen in history if seen.purpose is Purpose.BASELINE] == [
        SPACE.baseline
    ]


def test_without_a_lesson_that_fits_nothing_changes() -> None:
    elsewhere = Lesson("x", (Shown(Setting.of({"threads": 64, "workers": 1}), 0.0),))
    plain, _ = study(Search(SPACE), bowl)
    for lesson in (None, Lesson("x", ()), elsewhere):
        assert study(Search(SPACE, lesson=lesson), bowl)[0] == plain


def test_what_failed_there_is_no_first_guess_but_may_be_tried() -> None:
    lesson = of(bowl)
    failed = tuple(
        replace(each, log_ratio=None) if each.log_ratio == 0 else each for each in lesson.shown
    )
    search = Search(SPACE, lesson=Lesson("x", failed))
    history, _ = study(search, bowl)
    guesses = [seen.setting for seen in history if seen.purpose is Purpose.GUESS]
    assert (2, 4, "core") not in guesses
    assert search.best(history) == (2, 4, "core")


@given(
    st.lists(
        st.tuples(
            st.sampled_from((1, 2, 3, 4, 6, 8, 16)),
            st.sampled_from((0, 1, 2, 4, 8)),
            st.sampled_from(("none", "core", "socket")),
            st.none() | st.floats(0, 5),
        ),
        max_size=12,
    ),
    st.integers(0, 6),
)
@settings(max_examples=25, deadline=None)
def test_nothing_of_a_lesson_counts_as_launched(
    earlier: list[tuple[int, int, str, float | None]], launches: int
) -> None:
    lesson = Lesson("x", tuple(shown(key[:3], key[3]) for key in earlier))
    search, history = Search(SPACE, lesson=lesson), list[SearchObservation]()
    assert search.best(history) is None
    for _ in range(launches):
        step = search.next(history)
        if isinstance(step, Done):
            break
        if not any(seen.ending == "finished" for seen in history):
            limit, _ = search.race(history, step.purpose, step.setting)
            assert limit is None, "nothing is raced against an earlier study"
        known = {seen.setting for seen in history}
        assert (step.purpose is Purpose.REPEAT) <= (step.setting in known)
        history.append(run(search, history, step, bowl))
        assert search.best(history) in {seen.setting for seen in history}


def test_a_knob_of_its_own_stands_at_its_usual_value() -> None:
    lesson = Lesson("x", (Shown(Setting.of({"threads": 4, "workers": 2}), 0.0),))
    earlier = translated(lesson, Grid(SPACE))
    assert earlier is not None
    assert [key for key, group in earlier.groups.items() if group.finished] == [(4, 2, "none")]


@pytest.mark.parametrize(("value", "place"), [(3, 1), (5, 2), (12, None), ("x", None)])
def test_values_move_to_the_nearest_one(value: int | str, place: int | None) -> None:
    assert nearest(KnobAxis("threads", (2, 4, 6, 8)), value) == place


# --- in a study of Optuna's ---------------------------------------------------------------------


def seconds(threads: int, workers: int) -> float:
    return 3.0 + abs(math.log2(threads / 8)) + abs(math.log2(workers / 2))


def objective(trial: optuna.Trial) -> float:
    threads, workers = trial.suggest_int("threads", 1, 32), trial.suggest_int("workers", 1, 8)
    return seconds(threads, workers)


def test_the_sampler_starts_with_the_best_of_an_earlier_study() -> None:
    roles: dict[str, Role] = {"threads": "threads"}
    earlier = optuna.create_study(sampler=RuntimeSampler(cores=8, roles=roles, seed=0))
    earlier.optimize(objective, n_trials=25)
    for learn_from in (earlier, earlier.trials):
        sampler = RuntimeSampler(cores=8, roles=roles, seed=1, learn_from=learn_from)
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, n_trials=5)
        assert study.trials[0].params == earlier.best_params
        assert len(study.trials) == 5, "those of the earlier study are not among them"


def test_threads_grow_with_the_cores() -> None:
    def in_terms(cores: int) -> RuntimeSampler:
        return RuntimeSampler(
            cores=cores, roles={"threads": "threads"}, learn_from=earlier, earlier_cores=8
        )

    earlier = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    earlier.enqueue_trial({"threads": 8, "workers": 2})
    earlier.optimize(objective, n_trials=5)
    study = optuna.create_study(sampler=in_terms(16))
    assert study.ask().suggest_int("threads", 1, 32) == 16


def test_choices_that_are_no_numbers_are_taken_over_as_they_are() -> None:
    def timed(trial: optuna.Trial, choices: Sequence[int | None] = (1, 2, None)) -> float:
        return 2.0 + (trial.suggest_categorical("threads", choices) is not None)

    earlier = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    earlier.optimize(timed, n_trials=6)
    for choices in ((1, 2, None), (1, None)):
        roles: dict[str, Role] = {"threads": "threads"}
        sampler = RuntimeSampler(cores=8, roles=roles, seed=0, learn_from=earlier, earlier_cores=4)
        study = optuna.create_study(sampler=sampler)
        study.optimize(partial(timed, choices=choices), n_trials=4)
        assert study.trials[0].params == {"threads": None}


def test_trials_of_other_parameters_teach_nothing() -> None:
    earlier = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    earlier.optimize(lambda trial: trial.suggest_float("rate", 1, 2), n_trials=3)
    study = optuna.create_study(sampler=RuntimeSampler(seed=0, learn_from=earlier))
    study.optimize(objective, n_trials=4)
    assert all(set(trial.params) == {"threads", "workers"} for trial in study.trials)
