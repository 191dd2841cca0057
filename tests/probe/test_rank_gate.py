"""Ranks that are threads, and the tool: what all ranks do alike, and what they tell."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import Supervisor, probe_module
from tests.marked import eventually

rank_live_gate, rank_live_knobs = probe_module("rank_live_gate"), probe_module("rank_live_knobs")
rank_live = probe_module("rank_live")

RANKS = 3
MOST = 200_000  # iterations of a test that does not end


class Rank:
    """One rank's loop, which a knob ends; what it did is kept: (iteration, value)."""

    def __init__(self, place: dict[str, Any], rank: int) -> None:
        knobs = rank_live_knobs.Knobs()
        self.gate = rank_live_gate.Gate(place, rank, RANKS, knobs)
        self.agent = rank_live.Agent(self.gate, knobs)
        self.iteration = 0
        self.value: Any = "start"
        self.applied: list[tuple[int, Any]] = []
        self.ended = False
        self.agent.offer(("workers",), self.apply, lambda: {"workers": self.value})
        self.agent.offer(("end",), self.end)

    def apply(self, values: dict[str, Any]) -> None:
        self.value = values["workers"]
        self.applied.append((self.iteration, self.value))

    def end(self, _: Any) -> None:
        self.ended = True

    def loop(self, least: int) -> None:
        while not self.ended and (self.iteration < least or self.agent.more()):
            assert self.iteration < MOST
            time.sleep(random.random() * 1e-3)
            self.iteration += 1
            self.agent.step()


class Job:
    def __init__(self, folder: Path) -> None:
        self.supervisor = Supervisor(folder, RANKS)
        place = json.loads(self.supervisor.path.read_text())
        self.ranks = [Rank(place, rank) for rank in range(RANKS)]
        self._pool = ThreadPoolExecutor(RANKS)

    def start(self, least: int = MOST) -> None:
        self._loops = [self._pool.submit(rank.loop, least) for rank in self.ranks]

    def join(self) -> None:
        for loop in self._loops:
            loop.result(60)

    def finish(self) -> None:
        self.supervisor.switch(end=1)
        self.join()

    def iterations(self) -> list[int]:
        return [rank.iteration for rank in self.ranks]

    def are_passive(self) -> bool:
        return all(rank.gate.passive for rank in self.ranks)

    def close(self) -> None:
        self.supervisor.close()
        for rank in self.ranks:
            rank.ended = True
        self._pool.shutdown()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.close()


def test_all_ranks_change_at_the_same_iteration_and_tell_of_each_once(job: Job) -> None:
    for rank in job.ranks[1:]:
        rank.agent.offer(("not of rank 0",), print)
    job.start()
    hello = job.supervisor.hello()
    assert set(hello.can) - {"omp_threads", "opencv_threads"} == {"workers", "end"}
    assert (hello.can["workers"], hello.rank, hello.ranks, hello.hook) == ("start", 0, 3, "session")
    assert job.supervisor.path.read_text() == "", "nobody else needs to know"
    switches: list[tuple[int, int | str]] = []
    for number in range(1, 30):
        answer = job.supervisor.switch(workers=number)
        assert [rank.rank for rank in answer.ranks] == [0, 1, 2]
        assert [rank.values["workers"] for rank in answer.ranks] == [number] * RANKS
        switches.append((answer.iteration - 1, number))  # the loops count what has ended
        time.sleep(random.random() * 0.01)
    answer = job.supervisor.switch(unknown=1, workers=None)
    assert [rank.errors for rank in answer.ranks] == [{"unknown": "cannot be changed here"}] * RANKS
    switches.append((answer.iteration - 1, "start"))
    job.finish()
    assert [rank.applied for rank in job.ranks] == [switches] * RANKS
    assert len(set(job.iterations())) == 1, "the end is the same for all"
    job.ranks[0].gate.leave()
    job.supervisor.wait_for_end()
    counted = job.supervisor.counted()
    assert counted == list(range(2, job.ranks[0].iteration + 1))


def test_without_the_tool_the_job_goes_on_alone(job: Job) -> None:
    job.supervisor.close()
    job.start(least=1000)
    job.join()
    eventually(job.are_passive)
    assert job.iterations() == [1000] * RANKS
    assert [rank.value for rank in job.ranks] == ["start"] * RANKS


@pytest.mark.parametrize("is_gone", [False, True])
def test_at_the_programs_own_end_all_wait_for_an_order(job: Job, is_gone: bool) -> None:
    job.start(least=5)
    job.supervisor.hello()
    eventually(lambda: job.iterations() == [5] * RANKS)
    time.sleep(0.2)
    assert job.iterations() == [5] * RANKS, "they wait"
    if is_gone:
        job.supervisor.close()
        job.join()
        assert job.iterations() == [5] * RANKS
    else:
        job.supervisor.switch(workers=4)
        job.finish()
        assert min(job.iterations()) > 5
        assert [rank.value for rank in job.ranks] == [4] * RANKS


def alone(supervisor: Supervisor) -> Any:
    """Return the gate of the only rank, which has connected."""
    place = json.loads(supervisor.path.read_text())
    gate = rank_live_gate.Gate(place, 0, 1, rank_live_knobs.Knobs())
    gate.boundary(2, "chainer")
    supervisor.hello()
    time.sleep(0.1)  # it has read that it was let in
    return gate


def test_the_end_is_seen_though_a_worker_has_inherited_the_line(supervisor: Supervisor) -> None:
    gate = alone(supervisor)
    if not (worker := os.fork()):
        time.sleep(60)
        os._exit(0)
    gate.leave()
    supervisor.wait_for_end()
    os.kill(worker, 9)
    os.waitpid(worker, 0)


def test_a_tool_that_does_not_read_is_not_waited_for(supervisor: Supervisor) -> None:
    """It thinks for seconds between two windows; iterations of microseconds fill the socket."""
    gate, last = alone(supervisor), 1_000_000
    for iteration in range(2, last):
        gate.note_iteration(2e-5, False)
        gate.boundary(iteration + 1, "chainer")
    gate.leave()
    supervisor.wait_for_end()
    counted = supervisor.counted()
    assert 1000 < len(counted) < last - 2, "some were left out"
    assert counted == sorted(set(counted))
