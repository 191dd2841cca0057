"""What ranks read back, joined with what was seen of them from outside."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.study_samples import SPEC
from tuner.live.server import RankState, parse
from tuner.live.window import effects_of, observed, refused
from tuner.model import Observation, RankView, Setting, Value, Verdict

OUTSIDE = Observation((RankView(0, 5, 1, (0, 1, 2, 3)), RankView(1, 5, 2, ())))


def seen(rank: int, threads: int = 2, **values: Value | None) -> RankState:
    return RankState(rank, threads, None, (("numpy.libs/openblas", threads),), (0,), values)


def verdict(knob: str, asked: Value, *ranks: RankState) -> tuple[Verdict, Value | None]:
    found = observed(OUTSIDE, ranks)
    (effect,) = effects_of(Setting.of({knob: asked}), SPEC, found, ranks)
    return effect.verdict, effect.observed


def test_both_views_of_a_rank_are_joined() -> None:
    first, second = observed(OUTSIDE, (seen(0), seen(1, 3))).ranks
    assert (first.threads, first.affinity, first.blas_threads) == (5, (0, 1, 2, 3), 2)
    assert (second.children, second.affinity, second.pools[0][1]) == (2, (0,), 3)
    assert first.reported and first.world_size == 2

    (only,) = observed(Observation(), (seen(4),)).ranks  # that was not seen from outside
    assert (only.rank, only.threads, only.blas_threads) == (4, 0, 2)
    assert observed(OUTSIDE, ()) == OUTSIDE


def test_threads_are_judged_by_the_pools_and_what_nothing_shows_by_what_was_read() -> None:
    assert verdict("omp_threads", 2, seen(0), seen(1)) == (Verdict.HONOURED, 2)
    assert verdict("omp_threads", 3, seen(0), seen(1))[0] is Verdict.OVERRIDDEN
    naive = (seen(0, communicator="naive"), seen(1, communicator="naive"))
    assert verdict("communicator", "naive", *naive) == (Verdict.HONOURED, "naive")
    assert verdict("communicator", "flat", *naive) == (Verdict.OVERRIDDEN, "naive")
    half = (naive[0], seen(1, communicator=None))
    assert verdict("communicator", "naive", *half)[0] is Verdict.NOT_OBSERVABLE
    assert verdict("communicator", "naive")[0] is Verdict.NOT_OBSERVABLE


@pytest.mark.parametrize(
    ("asked", "read", "same"),
    [
        (16, "16", True),  # what json makes of numpy.int64(16) too
        ("16", 16, True),
        (16, 16.0, True),
        ("0.5", 0.5, True),
        (16, "64", False),
        (16, 16.5, False),
        (16, "16.0", True),  # of numpy.float32
        ("naive", "flat", False),
    ],
)
def test_what_is_read_is_compared_as_a_value(asked: Value, read: Any, same: bool) -> None:
    states = []
    for rank in range(2):
        state = {"type": "state", "rank": rank, "values": {"communicator": read}}
        message = parse(json.dumps(state).encode())
        assert isinstance(message, RankState)
        states.append(message)
    found = verdict("communicator", asked, *states)
    assert (found == (Verdict.HONOURED, asked)) is same
    assert same or found[0] is Verdict.OVERRIDDEN


CHUNK = Setting.of({"chunk": 16})


def failing(rank: int, **errors: str) -> RankState:
    return replace(seen(rank), errors=errors)


def test_a_rank_that_cannot_switch_is_named() -> None:
    ranks = (failing(0, chunk="OSError: no: not here", x="y"), failing(1, z="y"), seen(2))
    assert refused(CHUNK, ranks, {"chunk", "workers", "x", "z"}) == {
        "chunk": "chunk=16 in rank 0: OSError: no: not here",
        "x": "x in rank 0: y",
        "z": "z in rank 1: y",
    }
    both = (failing(0, chunk="x"), failing(3, chunk="y"))
    assert refused(CHUNK, both, {"chunk"}) == {"chunk": "chunk=16 in rank 0 and 1 other: x"}


def test_of_knobs_that_were_not_switched_nothing_is_said() -> None:
    ranks = (seen(0), failing(1, workers="ValueError: cannot be read", chunk="y"))
    assert refused(CHUNK, ranks, set()) == {}
    assert refused(CHUNK, (seen(0), seen(1)), {"chunk"}) == {}
    assert refused(CHUNK, ranks, {"chunk"}) == {"chunk": "chunk=16 in rank 1: y"}
