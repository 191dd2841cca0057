"""The knobs of a rank: thread counts that it changes, and what the program settles together."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.live_bench import probe_module

rank_live_knobs = probe_module("rank_live_knobs")


@pytest.fixture
def pools() -> Any:
    pytest.importorskip("numpy")
    found = rank_live_knobs.Pools()
    assert found.known
    yield found
    found.apply(None)


def test_every_pool_is_set_and_read_back_capped_at_the_cpus_of_the_rank(pools: Any) -> None:
    before = os.sched_getaffinity(0)
    for asked, cpus, found in ((1, before, 1), (1000, before, len(before)), (2, {min(before)}, 1)):
        os.sched_setaffinity(0, cpus)
        try:
            pools.apply(asked)
        finally:
            os.sched_setaffinity(0, before)
        assert pools.read() == rank_live_knobs.threads_state()["blas_threads"] == found
        assert {n for _, n in rank_live_knobs.threads_state()["pools"]} == {found}


def test_null_gives_each_pool_its_own_back(pools: Any) -> None:
    before = rank_live_knobs.threads_state()["pools"]
    for some in (pools, rank_live_knobs.Pools()):  # the other one sees them late
        some.apply(1)
        some.apply(None)
        assert rank_live_knobs.threads_state()["pools"] == before


def test_opencv_can_be_set_where_no_worker_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cv2 = pytest.importorskip("cv2")
    monkeypatch.setattr(rank_live_knobs, "has_children", lambda: True)
    assert "opencv_threads" not in rank_live_knobs.Knobs().begin()
    monkeypatch.setattr(rank_live_knobs, "has_children", lambda: False)
    knobs = rank_live_knobs.Knobs()
    before = knobs.begin()["opencv_threads"]
    assert before == cv2.getNumThreads()
    assert knobs.change({"opencv_threads": before + 2}) == {}
    assert knobs.state(0, {})["opencv_threads"] == before + 2
    assert knobs.change({"opencv_threads": None}) == {}
    assert cv2.getNumThreads() == before


def test_a_worker_is_seen() -> None:
    rank = os.fork()
    if not rank:
        alone = rank_live_knobs.has_children()
        read, write = os.pipe()
        if not os.fork():
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os._exit(2 * alone + rank_live_knobs.has_children())
    assert os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) == 1


@pytest.fixture
def knobs() -> Any:
    return rank_live_knobs.Knobs()


class Loader:
    """Takes values, and comes to what they say when it settles."""

    def __init__(self) -> None:
        self.wanted = {"iterator_workers": 1, "prefetch": 2}
        self.now = dict(self.wanted)
        self.settled = 0

    def offer(self, knobs: Any) -> None:
        for knob in self.wanted:
            knobs.offer(
                knob,
                lambda value, knob=knob: self.wanted.update({knob: value}),
                lambda knob=knob: self.now[knob],
                self.settle,
            )

    def settle(self) -> None:
        self.settled += 1
        if self.wanted["iterator_workers"] > 8:
            raise MemoryError("too many")
        self.now = dict(self.wanted)


def test_one_settles_for_all_that_change_before_they_are_read(knobs: Any) -> None:
    loader = Loader()
    loader.offer(knobs)
    knobs.offer("chunk", print, lambda: 1)
    assert knobs.begin().items() >= {"iterator_workers": 1, "prefetch": 2, "chunk": 1}.items()
    assert knobs.change({"iterator_workers": 4, "prefetch": 3}) == {}
    assert knobs.state(0, {})["values"].items() >= {"iterator_workers": 4, "prefetch": 3}.items()
    assert knobs.change({"chunk": 2}) == {}
    assert loader.settled == 1
    assert knobs.change({"prefetch": None}) == {}
    assert loader.now == {"iterator_workers": 4, "prefetch": 2}


def test_what_it_raises_is_told_of_each_that_changed(knobs: Any) -> None:
    loader = Loader()
    loader.offer(knobs)
    knobs.begin()
    assert knobs.change({"iterator_workers": 9}) == {"iterator_workers": "MemoryError: too many"}
    assert len(knobs.change({"iterator_workers": 9, "prefetch": 1})) == 2
    assert knobs.state(0, {})["values"]["iterator_workers"] == 1


def test_opencv_is_set_in_the_rank_before_its_loader_starts_workers(knobs: Any) -> None:
    cv2 = pytest.importorskip("cv2")
    before = cv2.getNumThreads()
    seen: list[int | None] = []

    def settle() -> None:
        seen.append(cv2.getNumThreads())

    knobs.offer("opencv_threads", seen.append, lambda: None, settle)
    assert knobs.begin()["opencv_threads"] is None
    assert knobs.change({"opencv_threads": before + 2}) == {}
    assert knobs.change({"opencv_threads": None}) == {}
    assert seen == [before + 2, before + 2, None, before]
