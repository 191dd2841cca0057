"""The knobs of a rank: thread counts that it changes, and what the program changes together."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live_bench import probe_module

rank_live_knobs, rank_report = probe_module("rank_live_knobs"), probe_module("rank_report")


def pools() -> list[tuple[str, int]]:
    return [(pool["library"], pool["threads"]) for pool in rank_report.pools()]


@pytest.fixture
def knobs() -> Iterator[Any]:
    pytest.importorskip("numpy")
    found = rank_live_knobs.Knobs()
    yield found
    found.change({"omp_threads": None})


def test_every_pool_is_set_and_read_back_capped_at_the_cpus_of_the_rank(knobs: Any) -> None:
    assert knobs.begin()["omp_threads"] == max(threads for _, threads in pools())
    before, cpus = pools(), os.sched_getaffinity(0)
    for threads, own, most in ((1, cpus, 1), (1000, cpus, len(cpus)), (2, {min(cpus)}, 1)):
        os.sched_setaffinity(0, own)
        try:
            assert knobs.change({"omp_threads": threads}) == {}
        finally:
            os.sched_setaffinity(0, cpus)
        assert knobs.read({})["omp_threads"] == most
        assert {number for _, number in pools()} == {most}
    assert knobs.change({"omp_threads": None}) == {}
    assert pools() == before, "each has its own number again"


class Loader:
    """Two knobs that are changed together, of which a value may be refused."""

    def __init__(self, knobs: Any) -> None:
        self.values = {"iterator_workers": 1, "prefetch": 2}
        self.changes = 0
        knobs.offer(tuple(self.values), self.apply, lambda: self.values)

    def apply(self, values: dict[str, int]) -> None:
        self.changes += 1
        if values.get("iterator_workers", 0) > 8:
            raise MemoryError("too\nmany")
        self.values = {**self.values, **values}


def test_what_is_offered_together_changes_once_and_fails_together(knobs: Any) -> None:
    loader = Loader(knobs)
    knobs.offer(("chunk",), print)
    assert knobs.begin().items() >= {"iterator_workers": 1, "prefetch": 2, "chunk": None}.items()
    assert knobs.change({"iterator_workers": 4, "prefetch": 3}) == {}
    assert knobs.read({}).items() >= {"iterator_workers": 4, "prefetch": 3}.items()
    assert knobs.change({"chunk": 2}) == {}
    assert loader.changes == 1
    assert knobs.change({"prefetch": None}) == {}
    assert loader.values == {"iterator_workers": 4, "prefetch": 2}
    failed = knobs.change({"iterator_workers": 9, "prefetch": 1, "chunk": 3})
    assert failed == dict.fromkeys(("iterator_workers", "prefetch"), "MemoryError: too many")
    assert knobs.read({})["prefetch"] == 2


def test_opencv_is_set_in_the_rank_if_no_worker_keeps_a_count_of_its_own(
    knobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cv2 = pytest.importorskip("cv2")
    before = cv2.getNumThreads()
    with subprocess.Popen(["sleep", "60"]) as worker:
        offered = knobs.begin()
        worker.kill()
    assert "opencv_threads" not in offered
    monkeypatch.setattr(rank_live_knobs, "_has_children", lambda: False)  # of other tests
    alone = rank_live_knobs.Knobs()
    assert alone.begin()["opencv_threads"] == before
    assert alone.change({"opencv_threads": before + 2}) == {}
    assert alone.read({})["opencv_threads"] == before + 2
    assert alone.change({"opencv_threads": None}) == {}
    assert cv2.getNumThreads() == before


def test_opencv_is_set_in_the_rank_before_its_loader_starts_workers(knobs: Any) -> None:
    cv2 = pytest.importorskip("cv2")
    before, applied = cv2.getNumThreads(), list[tuple[int | None, int]]()

    def apply(values: dict[str, int | None]) -> None:
        applied.append((values["opencv_threads"], cv2.getNumThreads()))

    knobs.offer(("opencv_threads",), apply, lambda: {"opencv_threads": None})
    assert knobs.begin()["opencv_threads"] is None
    for threads in (before + 2, None):
        assert knobs.change({"opencv_threads": threads}) == {}
    assert applied == [(before + 2, before + 2), (None, before)]
