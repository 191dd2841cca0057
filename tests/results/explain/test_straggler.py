"""A rank that the others wait for, from inside and from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explain_cases import host, phases, rank, verdict
from tuner.results.explain import Cause, Certainty
from tuner.results.explain.waits import straggler


def test_a_rank_that_the_others_wait_for() -> None:
    shares = phases(2, "train.py:7 sleep", compute=(0.1, 0, 0.85), exchange=(0.05, 0, 0))
    for n in (0, 1, 3):
        shares += phases(n, compute=(0.1, 0, 0), exchange=(0.9, 0, 0))
    record = [host(3.1), rank(2, 0.15), *(rank(n) for n in (0, 1, 3))]
    found = verdict(record, shares)
    assert (found.cause, found.suspect.subject) == (Cause.STRAGGLER, "rank 2")
    assert "slept in its own work 85 % of its time (train.py:7 sleep)" in found.suspect.evidence[1]
    assert found.certainty is Certainty.CLEAR
    outside = verdict(record)
    assert (outside.cause, outside.suspect.subject) == (Cause.STRAGGLER, "rank 2")
    assert outside.certainty is not Certainty.CLEAR


@pytest.mark.parametrize(
    ("one", "other"),
    # Both want more than a core, or one has threads that compute while the other does without.
    [((0.25, 3.0), (0.25, 1.2)), ((8.0, 0.0), (0.5, 0.0))],
)
def test_ranks_with_threads_to_spare_are_not_compared_from_outside(
    one: tuple[float, float], other: tuple[float, float]
) -> None:
    assert straggler(verdict([rank(0, *one), rank(1, *other)]).case) is None


def test_a_host_whose_ranks_the_others_wait_for_is_named_with_its_neighbours() -> None:
    shares = [each for n in (2, 3) for each in phases(n, compute=(0.9, 0, 0), exchange=(0.1, 0, 0))]
    for n in (0, 1):
        shares += phases(n, compute=(0.4, 0, 0), exchange=(0.6, 0, 0))
    record = [host(2.0), rank(0), rank(1)]
    slow = [host(4.0, others_cores=1.5), rank(2), rank(3)]
    found = verdict([*record, *(replace(each, host="node2") for each in slow)], shares)
    assert (found.cause, found.suspect.subject) == (Cause.STRAGGLER, "ranks 2, 3 (on node2)")
    assert found.suspect.evidence[-1] == (
        "other processes used 1.5 cores on node2, 0.0 on another host at most"
    )


def test_a_job_on_two_hosts_is_explained_as_one_of_half_its_size_on_one() -> None:
    one = [host(4.0), rank(0, 2.0, 1.0), rank(1, 2.0, 1.0)]
    other = [host(4.0), rank(2, 2.0, 1.0), rank(3, 2.0, 1.0)]
    alone, both = verdict(one), verdict([*one, *(replace(each, host="node2") for each in other)])
    assert (both.cause, both.suspect.share) == (alone.cause, alone.suspect.share)
    assert both.case.own_runnable == alone.case.own_runnable == 6.0


def test_what_a_rank_wanted_is_not_called_what_it_used() -> None:
    found = straggler(verdict([rank(0, 0.1, 0.1), rank(1, 0.5, 0.6)]).case)
    assert found is not None
    assert found.share == pytest.approx(0.8)
    assert found.evidence[0] == (
        "rank 0 wanted a core 20 % of the time (ran or queued), the others 100 %"
    )


def test_a_rank_with_more_work_is_seen_from_inside_only() -> None:
    shares = phases(0, compute=(0.95, 0, 0), exchange=(0.05, 0, 0))
    shares += phases(1, compute=(0.35, 0, 0), exchange=(0.65, 0, 0))
    record = [host(2.0), rank(0), rank(1)]
    assert verdict(record, shares).suspect.subject == "rank 0"
    found = verdict(record)
    assert found.cause is Cause.CPU
    assert "look the same" in found.suspect.evidence[-1]
    assert any("not seen from inside" in gap for gap in found.gaps)


_WANTS = st.tuples(st.floats(0, 3), st.floats(0, 3))


@given(st.lists(_WANTS, min_size=2, max_size=5))
def test_a_rank_is_late_for_a_part_of_the_time(wants: list[tuple[float, float]]) -> None:
    tracks = [rank(number, *each) for number, each in enumerate(wants)]
    found = straggler(verdict(tracks).case)
    assert found is None or 0 <= found.share <= 1
