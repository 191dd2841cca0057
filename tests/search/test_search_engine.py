"""What the search launches, and when it ends."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.knobs.conditions import KnobAxis
from tuner.model import Purpose, Value
from tuner.search.engine import BASELINE_TIMES, Done, Proposal, Search
from tuner.search.grid import Key, Space
from tuner.search.launch_groups import SearchObservation
from tuner.search.scoring import MOST_REPEATS, Live, Options

SPACE = Space(
    (
        KnobAxis("threads", (1, 2, 3, 4, 6, 8), "threads"),
        KnobAxis("workers", (1, 2, 4, 8), "workers"),
        KnobAxis("binding", ("none", "core")),
    ),
    ranks_per_host=2,
    cores=8,
    baseline=(8, 8, "none"),
    guesses=((4, 4, "none"), (1, 1, "none")),
)

Time = Callable[[Key], float | None]


def bowl(key: Key) -> float:
    """Seconds: 10 at (2, 4, core), more the further away."""
    threads, workers, binding = key
    assert isinstance(threads, int)
    assert isinstance(workers, int)
    away = abs(math.log2(threads / 2)) + abs(math.log2(workers / 4)) + (binding == "none") * 0.3
    return 10.0 * math.exp(0.4 * away)


def run(
    search: Search, history: Sequence[SearchObservation], launch: Proposal, time: Time
) -> SearchObservation:
    """A launch without noise, cut where it exceeds its limit."""
    assert launch.setting is not None
    elapsed_s = time(launch.setting)
    if elapsed_s is None:
        return SearchObservation(launch.setting, "failed", launch.purpose, 1.0, is_bound=True)
    limit_s = math.inf
    limit, _ = search.race(history, launch.purpose, launch.setting)
    if limit is not None:
        limit_s = limit.seconds * limit.factor * 1.1
    if elapsed_s > limit_s:
        return SearchObservation(
            launch.setting, "killed", launch.purpose, limit_s / 4, None, elapsed_s, 0.1, 2.0
        )
    return SearchObservation(
        launch.setting, "finished", launch.purpose, elapsed_s + 2, elapsed_s, startup_s=2.0
    )


def study(search: Search, time: Time, most: int = 200) -> tuple[list[SearchObservation], Done]:
    history: list[SearchObservation] = []
    while len(history) < most:
        step = search.next(history)
        if isinstance(step, Done):
            return history, step
        history.append(run(search, history, step, time))
    raise AssertionError("the search has no end")


def test_it_finds_the_best_of_a_bowl_after_the_guesses_and_the_baseline() -> None:
    search = Search(SPACE)
    history, done = study(search, bowl)
    assert search.best(history) == (2, 4, "core")
    assert done.reason == "converged"
    assert len({seen.setting for seen in history}) < 6 * 4 * 2
    first = [(Purpose.GUESS, guess) for guess in SPACE.guesses]
    first.append((Purpose.BASELINE, (8, 8, "none")))
    assert [(seen.purpose, seen.setting) for seen in history[:3]] == first
    assert history[3].purpose is Purpose.SEARCH


def test_a_baseline_at_no_known_point_is_launched_too() -> None:
    search = Search(replace(SPACE, baseline=None))
    history = [
        SearchObservation(key, "finished", Purpose.GUESS, 12.0, bowl(key), startup_s=2.0)
        for key in ((4, 4, "none"), (1, 1, "none"))
    ]
    assert search.next(history) == Proposal(None, Purpose.BASELINE)
    limit, _ = search.race(history, Purpose.BASELINE, None)
    assert limit is not None and limit.factor == BASELINE_TIMES
    told = [*history, SearchObservation(None, "finished", Purpose.BASELINE, 30.0, 28.0)]
    after = search.next(told)
    assert isinstance(after, Proposal) and after.purpose is Purpose.SEARCH


def apart(values: tuple[int, ...], factor: float, sd: float, seed: int) -> Time:
    """Log-normal runs: about 10 s for the first value, for each further one `factor` times that."""
    rng = random.Random(seed)
    return lambda key: 10.0 * factor ** values.index(key[0]) * math.exp(sd * rng.gauss(0, 1))


@pytest.mark.parametrize("values", [(1,), (1, 2, 4, 8)])
@pytest.mark.parametrize("sd", [0.0, 0.03])
@pytest.mark.parametrize("factor", [2.0, 1.0])
def test_a_few_settings_are_told_apart_in_a_few_launches_or_found_alike(
    values: tuple[int, ...], sd: float, factor: float
) -> None:
    """None is launched for ever; where runs differ as they do, few are launched often."""
    space = Space((KnobAxis("threads", values, "threads"),), 2, 8, values[:1], (values[:1],))
    lengths = []
    for seed in range(3):
        search = Search(space, seed=seed)
        history, done = study(search, apart(values, factor, sd, seed))
        assert done == Done("exhausted")
        launches = Counter(seen.setting for seen in history)
        assert max(launches.values()) <= MOST_REPEATS
        lengths.append(len(history))
        if factor > 1:
            assert launches.keys() == {(value,) for value in values}
            assert search.best(history) == (1,)
    if sd or factor > 1:
        assert statistics.mean(lengths) <= (3 if factor > 1 else 6) * len(values)


def test_a_bottleneck_of_two_knobs_is_found() -> None:
    """More threads need more workers: each alone makes it slower, both together faster."""
    counts = (1, 2, 3, 4, 6, 8)
    knobs = (KnobAxis("threads", counts, "threads"), KnobAxis("workers", counts, "workers"))
    space = Space(knobs, 4, 8, (8, 8), ((1, 1),))

    def time(key: Key) -> float:
        """Seconds: 10 at (2, 2), 11 at (1, 1), 14 at (1, 2) and (2, 1)."""
        threads, workers = (math.log2(int(value)) for value in key)
        more = (threads + workers) / 2 - 1
        return 10.0 * math.exp(0.3 * abs(threads - workers) + 0.1 * max(3 * more, -more))

    for seed in range(2):
        search = Search(space, seed=seed)
        history, _ = study(search, time)
        assert search.best(history) == (2, 2)


def test_one_disturbed_run_does_not_hide_the_best() -> None:
    for seed in range(2):
        late: dict[Key, float] = {(2, 4, "core"): 2.3}  # as many times as long, once

        def time(key: Key, late: dict[Key, float] = late) -> float:
            return bowl(key) * late.pop(key, 1.0)

        search = Search(SPACE, seed=seed)
        history, _ = study(search, time)
        assert search.best(history) == (2, 4, "core")


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(0, 99),
    st.randoms(use_true_random=False),
)
def test_any_small_space_is_searched_to_an_end(
    sizes: list[int], cores: int, seed: int, rng: random.Random
) -> None:
    """Whatever the times and failures: no surprise launch, and the best is one that ran."""
    roles = ("threads", None, "workers")
    space = Space(
        tuple(
            KnobAxis(f"k{j}", tuple(range(j, j + n)) if j != 1 else tuple("abcd"[:n]), roles[j])  # type: ignore[arg-type]
            for j, n in enumerate(sizes)
        ),
        ranks_per_host=2,
        cores=cores,
        baseline=None,
    )
    times: dict[Key, float | None] = {}

    def time(key: Key) -> float | None:
        drawn = None if rng.random() < 0.2 else rng.uniform(1, 100)
        return times.setdefault(key, drawn)

    search = Search(space, Options(trials=10), seed)
    history: list[SearchObservation] = []
    for _ in range(100):
        step = search.next(history)
        if isinstance(step, Done):
            break
        if step.setting is None:
            history.append(SearchObservation(None, "finished", Purpose.BASELINE, 50.0, 48.0))
        else:
            assert all(v in k.values for v, k in zip(step.setting, space.knobs, strict=True))
            history.append(run(search, history, step, time))
    else:
        raise AssertionError("the search has no end")
    best = search.best(history)
    ran = [seen.setting for seen in history if seen.ending == "finished" and seen.setting]
    assert best in ran or (best is None and not ran)


# --- where one running job measures many settings ------------------------------------------

WARM = frozenset({"threads", "workers"})


def live(job: tuple[Value | None, ...] | None, knobs: frozenset[str] = WARM) -> Live:
    return Live(knobs, job, startup_s=5.0, switch_s=0.3, share=0.1)


def window(key: Key, time_s: float, *, in_job: bool = True) -> SearchObservation:
    return SearchObservation(key, "finished", Purpose.SEARCH, 1.0, time_s, in_job=in_job)


def searched(options: Options | None = None) -> tuple[list[SearchObservation], list[int]]:
    """A search in which each change of the binding starts a job; how many of each."""
    search, history, jobs = Search(SPACE, options), list[SearchObservation](), list[int]()
    job: tuple[Value | None, ...] | None = None
    costs: Live | None = None
    while isinstance(step := search.next(history, costs), Proposal):
        assert step.setting is not None
        if job is None or step.setting[2] != job[2]:
            job = step.setting
            jobs.append(0)
        jobs[-1] += 1
        history.append(replace(run(search, history, step, bowl), wall_s=1.0))
        costs = live(job)
    assert isinstance(step, Done)
    return history, jobs


def test_it_stays_in_a_job_as_long_as_that_pays_and_ends_sooner_where_more_is_wanted() -> None:
    history, jobs = searched()
    assert Search(SPACE).best(history) == (2, 4, "core")
    assert len(jobs) <= 4
    assert max(jobs) >= 4
    assert len(searched(Options(until=0.2))[0]) < len(searched(Options(until=0.0001))[0])


@pytest.mark.parametrize("is_shared", [True, False])
def test_the_defaults_come_early_if_other_hosts_compare_themselves_by_them(
    *, is_shared: bool
) -> None:
    seen = [window(guess, 10.0) for guess in SPACE.guesses]
    search = Search(replace(SPACE, baseline=None))
    step = search.next(seen, live((2, 2, "none")), is_shared=is_shared)
    assert isinstance(step, Proposal)
    assert (step.purpose is Purpose.BASELINE) == is_shared


def test_after_six_windows_of_other_settings_the_incumbent_is_measured_again() -> None:
    """The machine may have changed since: what came later would be compared with another one."""
    best: Key = (4, 4, "none")
    others = [(threads, workers, "none") for threads in (1, 2, 8) for workers in (1, 2)]
    history = [window(best, 10.0), *(window(key, 20.0) for key in others)]
    step = Search(SPACE).next(history, live((1, 1, "none")))
    assert step == Proposal(best, Purpose.REPEAT)
