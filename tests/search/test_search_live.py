"""The search where one running job measures many settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.search.test_search_engine import SPACE, bowl, run
from tuner.model import Purpose, Value
from tuner.search.engine import Done, Proposal, Search
from tuner.search.grid import Key
from tuner.search.launch_groups import SearchObservation
from tuner.search.scoring import Live, Options

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
