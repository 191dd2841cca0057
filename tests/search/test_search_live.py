"""The search where one running job measures many settings."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from tests.search.test_search_engine import SPACE, bowl, few, run
from tuner.model import Purpose, Value
from tuner.search import Done, Live, Options, Proposal, Search, SearchObservation
from tuner.search.history import grouped
from tuner.search.regions import risk
from tuner.search.space import Grid

WARM = frozenset({"threads", "workers"})


def made(job: tuple[Value | None, ...] | None, knobs: frozenset[str] = WARM) -> Live:
    return Live(knobs, job, startup_s=5.0, switch_s=0.3, share=0.1)


def test_what_runs_serves_what_has_the_same_cold_part() -> None:
    grid = Grid(SPACE)
    assert grid.all is not None
    bound = grid.all[:, 2] == 1
    assert (made((1, 1, "core")).fits(grid, grid.all) == bound).all()
    assert not made(None).fits(grid, grid.all).any()
    assert not made((None, None, None)).fits(grid, grid.all).any()
    assert made((None, None, None), WARM | {"binding"}).fits(grid, grid.all).all()


def test_a_switch_costs_less_than_a_start() -> None:
    fits, ones = np.array([True, False]), np.ones(2)
    costs = made(None).cost_s(fits, math.log(10.0) * ones, ones, 0 * ones)
    assert costs == pytest.approx([0.3 + 1.0, 5.0 + 1.0])
    likely = made(None).cost_s(fits, math.log(10.0) * ones, ones, 0.5 * ones)
    assert likely - costs == pytest.approx([5.0, 5.0])
    stopped = made(None).cost_s(fits, math.log(10.0) * ones, 0 * ones, 0 * ones)
    assert (stopped < costs).all()


def searched(options: Options | None = None) -> tuple[list[SearchObservation], list[int]]:
    """A search in which each change of the binding starts a job; how many of each."""
    search, history, jobs = Search(SPACE, options), list[SearchObservation](), list[int]()
    job: tuple[Value | None, ...] | None = None
    live: Live | None = None
    while isinstance(step := search.next(history, live), Proposal):
        assert step.setting is not None
        if job is None or step.setting[2] != job[2]:
            job = step.setting
            jobs.append(0)
        jobs[-1] += 1
        history.append(replace(run(search, history, step, bowl), wall_s=1.0))
        live = made(job)
    assert isinstance(step, Done)
    return history, jobs


def test_it_stays_in_a_job_as_long_as_that_pays() -> None:
    history, jobs = searched()
    assert Search(SPACE).best(history) == (2, 4, "core")
    assert len(jobs) <= 4
    assert max(jobs) >= 4


def test_it_ends_sooner_where_more_gain_is_wanted() -> None:
    assert len(searched(Options(until=0.2))[0]) < len(searched(Options(until=0.0001))[0])


def test_the_defaults_come_last() -> None:
    space = replace(SPACE, baseline=None)
    search, history = Search(space), list[SearchObservation]()
    for _ in range(200):
        step = search.next(history, made((4, 4, "none")))
        assert isinstance(step, Proposal)
        if step.purpose is Purpose.BASELINE:
            assert search.race(history, Purpose.BASELINE, None)[0] is not None
            break
        history.append(run(search, history, step, bowl))
    told = [*history, SearchObservation(None, "finished", Purpose.BASELINE, 30.0, 28.0)]
    assert isinstance(search.next(told, made((4, 4, "none"))), Done)
    assert len(history) > 5


def test_the_defaults_come_early_if_other_hosts_compare_themselves_by_them() -> None:
    search = Search(replace(SPACE, baseline=None))
    seen = [
        SearchObservation(guess, "finished", Purpose.GUESS, 12.0, 10.0, in_job=True)
        for guess in SPACE.guesses
    ]
    alone, shared = (search.next(seen, made((2, 2, "none")), is_shared=s) for s in (False, True))
    assert isinstance(alone, Proposal)
    assert isinstance(shared, Proposal)
    assert alone.purpose is not Purpose.BASELINE
    assert shared.purpose is Purpose.BASELINE


def test_what_asks_for_more_than_all_that_ran_may_fail() -> None:
    grid = Grid(SPACE)
    assert grid.all is not None
    ran = grouped([SearchObservation((2, 2, "none"), "finished", Purpose.GUESS, 12.0, 10.0)])
    failed = grouped([SearchObservation((2, 2, "none"), "failed", Purpose.GUESS, 12.0)])
    chances, demand = risk(grid, grid.all, ran), grid.demand(grid.all)
    assert not risk(grid, grid.all, failed).any()
    most = max(0.0, float(grid.demand(grid.rows([(2, 2, "none")]))[0]))
    assert (chances[demand <= most] == 0).all()
    assert (chances[demand > most] > 0).all()
    assert (np.diff(chances[np.argsort(demand)]) >= 0).all()
    short = [
        SearchObservation((2, 2, "none"), "finished", Purpose.GUESS, 12.0, 10.0),
        SearchObservation((4, 8, "none"), "failed", Purpose.SEARCH, 1.0, is_bound=True),
    ]
    surer = risk(grid, grid.all, grouped(short))
    least = float(grid.demand(grid.rows([(4, 8, "none")]))[0])
    assert (surer[demand <= most] == 0).all()
    assert surer[demand >= least] == pytest.approx(0.9)
    between = (demand > most) & (demand < least)
    share = (demand[between] - most) / (least - most)
    assert surer[between] == pytest.approx(0.9 * share)
    assert between.any()


def test_of_two_that_no_window_tells_apart_the_one_that_asks_for_less_is_best() -> None:
    def history(*, in_job: bool) -> list[SearchObservation]:
        seen = [((2, 2, "none"), 10.02), ((4, 8, "none"), 10.0)]
        return [
            SearchObservation(key, "finished", Purpose.SEARCH, 1.0, time_s, in_job=in_job)
            for key, time_s in seen
            for _ in range(6)
        ]

    assert Search(SPACE).best(history(in_job=True)) == (2, 2, "none")
    careless = Search(SPACE, Options(core_price=0.0))
    assert careless.best(history(in_job=True)) == (4, 8, "none")
    assert Search(SPACE).best(history(in_job=False)) == careless.best(history(in_job=False))


def test_what_is_dearer_by_as_much_as_it_is_faster_is_not_measured_again_and_again() -> None:
    """Else the best, which it is by its cores, would for ever be one that others are ahead of."""
    space = few((1, 2, 4, 8, 16, 32))
    search, history, rng = Search(space), list[SearchObservation](), random.Random(3)
    live = Live(frozenset({"threads"}), (1,), startup_s=5.0, switch_s=0.3, share=0.1)
    while isinstance(step := search.next(history, live), Proposal):
        assert step.setting is not None
        threads = step.setting[0]
        assert isinstance(threads, int)
        time_s = 10 * 0.99 ** math.log2(threads) * math.exp(rng.gauss(0, 0.005))
        history.append(
            SearchObservation(step.setting, "finished", step.purpose, 1.0, time_s, in_job=True)
        )
    demand = Grid(space).demand(Grid(space).rows([(4,)]))[0]
    assert demand == 0  # up to here cores are free
    assert search.best(history) == (4,)
    assert len(history) <= 14


def test_after_six_windows_of_other_settings_the_incumbent_is_measured_again() -> None:
    """The machine may have changed since: what came later would be compared with another one."""
    search, best = Search(SPACE), (4, 4, "none")
    others = [(1, 1, "none"), (1, 2, "none"), (2, 1, "none"), (2, 2, "none"), (8, 1, "none")]
    tried = [(best, 10.0), *((key, 20.0) for key in (*others, (1, 4, "none")))]
    history = [
        SearchObservation(key, "finished", Purpose.SEARCH, 1.0, time_s, in_job=True)
        for key, time_s in tried
    ]
    found = search.next(history, made((1, 1, "none")))
    assert isinstance(found, Proposal)
    assert (found.purpose, found.setting) == (Purpose.REPEAT, best)


@pytest.mark.parametrize(("away", "smaller"), [(0.01, True), (0.2, False)])
def test_what_windows_differ_by_is_learnt_from_few_repeats(*, away: float, smaller: bool) -> None:
    def run_sd(*, in_job: bool) -> float:
        history = [
            SearchObservation(
                key, "finished", Purpose.SEARCH, 1.0, 10.0 * math.exp(off), in_job=in_job
            )
            for key in [(2, 2, "none"), (2, 4, "none"), (4, 4, "none")]
            for off in (0.0, away)
        ]
        search = Search(SPACE)
        fitted = search._state(history).fit
        assert fitted is not None
        return float(fitted.noise_sd(search._grid.rows([(4, 4, "none")]))[0])

    assert (run_sd(in_job=True) < 0.8 * run_sd(in_job=False)) == smaller
    assert (run_sd(in_job=True) > run_sd(in_job=False)) != smaller
