"""Ranks that are threads, and the tool: what all ranks do alike."""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import Supervisor, probe_module
from tests.marked import eventually
from tuner.live.server import Steps

rank_live_gate, rank_live_knobs = probe_module("rank_live_gate"), probe_module("rank_live_knobs")
rank_live, rank_live_line = probe_module("rank_live"), probe_module("rank_live_line")

RANKS = 3
MOST = 200_000  # iterations of a test that does not end


class Rank:
    """One rank's loop, which a knob ends; what it did is kept: (iteration, value)."""

    def __init__(self, place: dict[str, Any], rank: int) -> None:
        self.knobs = rank_live_knobs.Knobs()
        self.gate = rank_live_gate.Gate(place, rank, RANKS, self.knobs)
        self.agent = rank_live.Agent(self.gate, self.knobs)
        self.rank = rank
        self.iteration = 0
        self.value: Any = "start"
        self.seen: list[tuple[int, Any]] = []
        self.ended = False
        self.agent.offer("workers", self.apply, lambda: self.value)
        self.agent.offer("end", self.end)

    def apply(self, value: Any) -> None:
        self.seen.append((self.iteration, value))
        self.value = value

    def end(self, _: Any) -> None:
        self.ended = True

    def loop(self, least: int) -> None:
        """Says when it is at its end."""
        while not self.ended and (self.iteration < least or self.agent.more()):
            assert self.iteration < MOST
            time.sleep(random.random() * 1e-3)
            self.iteration += 1
            self.agent.step()
            if self.iteration == least:
                self.agent.over()


class Job:
    def __init__(self, folder: Path) -> None:
        self.supervisor = Supervisor(folder, RANKS)
        self.place = json.loads(self.supervisor.path.read_text())
        self.ranks = [Rank(self.place, rank) for rank in range(RANKS)]
        self._pool = ThreadPoolExecutor(RANKS)
        self._loops: list[Future[None]] = []

    def start(self, *ranks: int, least: int = MOST) -> None:
        self._loops += [self._pool.submit(self.ranks[n].loop, least) for n in ranks or range(RANKS)]

    def join(self) -> None:
        for loop in self._loops:
            loop.result(60)

    def finish(self) -> None:
        self.supervisor.switch(end=1)
        self.join()

    def leave(self, *ranks: int) -> None:
        """As when the processes end."""
        for number in ranks or range(RANKS):
            self.ranks[number].gate.leave()

    def seen(self) -> list[tuple[int, Any]]:
        """What every rank saw, at the same iterations."""
        seen = [rank.seen for rank in self.ranks]
        assert seen == [seen[0]] * RANKS
        return seen[0]

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


def test_the_hello_says_who_is_there_and_what_all_can_change(job: Job) -> None:
    for rank in job.ranks[1:]:
        rank.agent.offer("not of rank 0", print)
    job.ranks[0].agent.offer("of rank 0", print)
    job.start()
    hello = job.supervisor.hello()
    job.finish()
    assert hello.can["workers"] == "start"
    assert set(hello.can) - {"omp_threads", "opencv_threads"} == {"workers", "end"}
    assert (hello.rank, hello.ranks, hello.hook) == (0, RANKS, "session")


def test_all_ranks_change_at_the_same_iteration(job: Job) -> None:
    job.start()
    job.supervisor.hello()
    told = []
    for number in range(1, 30):
        answer = job.supervisor.switch(workers=number)
        assert [rank.rank for rank in answer.ranks] == [0, 1, 2]
        assert [rank.values["workers"] for rank in answer.ranks] == [number] * RANKS
        assert [rank.errors for rank in answer.ranks] == [{}] * RANKS
        told.append((answer.iteration - 1, number))  # the loops count what has ended
        time.sleep(random.random() * 0.01)
    job.finish()
    assert job.seen() == told


def test_every_iteration_is_told_of_once(job: Job) -> None:
    job.start(least=5)
    job.supervisor.hello()
    for number in range(1, 5):
        job.supervisor.switch(workers=number)
        time.sleep(0.05)
    job.finish()
    assert len({rank.iteration for rank in job.ranks}) == 1, "the end is the same for all"
    assert not any(rank.agent.passive for rank in job.ranks)
    job.leave(1, 2, 0)
    job.supervisor.wait_for_end()
    counted = job.supervisor.counted()
    assert counted == list(range(2, 2 + len(counted)))
    assert counted[-1] == job.ranks[0].iteration
    assert job.supervisor.server.iterations == 5, "at the program's own end"
    assert job.supervisor.server.problem == ""


def test_without_the_tool_the_job_goes_on_alone(job: Job) -> None:
    job.start(least=5000)
    job.supervisor.hello()
    job.supervisor.switch(workers=7)
    job.supervisor.close()
    job.join()
    assert all(rank.agent.passive for rank in job.ranks)
    assert [rank.iteration for rank in job.ranks] == [5000] * RANKS
    assert [rank.value for rank in job.ranks] == [7] * RANKS


@pytest.mark.parametrize(
    "text", [b"garbage\n", b"\xff\n", b"[1]\n", b'{"type":"at"}\n', b"x" * 70_000]
)
def test_a_tool_that_says_nonsense_is_left_by_all(job: Job, text: bytes) -> None:
    job.start()
    job.supervisor.hello()
    job.supervisor.server._lines[1].socket.sendall(text)
    job.supervisor.wait_for_end()
    eventually(lambda: all(rank.agent.passive for rank in job.ranks))
    assert job.supervisor.server.problem == "rank 1 closed its connection"


# --- what goes wrong ---------------------------------------------------------------------


def broken(*_: Any) -> None:
    raise ValueError("not\nhere")


def test_a_knob_that_fails_on_one_rank_is_told(job: Job) -> None:
    for rank in job.ranks:
        rank.agent.offer("odd", broken if rank.rank == 1 else print)
        rank.agent.offer("unread", print, broken)
    job.start()
    assert job.supervisor.hello().can["unread"] is None
    states = job.supervisor.switch(odd=1, workers=3, unknown=5).ranks
    always = {"unknown": "cannot be changed here", "unread": "ValueError: not here"}
    assert [state.errors for state in states] == [
        always | ({"odd": "ValueError: not here"} if rank == 1 else {}) for rank in range(RANKS)
    ]
    assert [state.values["workers"] for state in states] == [3] * RANKS
    assert job.supervisor.switch(workers=4).ranks[1].errors == {"unread": "ValueError: not here"}
    job.finish()


@pytest.mark.parametrize("rank", range(RANKS))
def test_a_rank_that_goes_keeps_nobody_at_the_gate(job: Job, rank: int) -> None:
    job.start()
    job.supervisor.hello()
    job.leave(rank)
    job.supervisor.server.switch({"workers": 4})  # the others stop for it
    job.supervisor.wait_for_end()
    eventually(lambda: all(each.agent.passive for each in job.ranks))


def test_a_tool_that_does_not_answer_is_not_waited_for_for_ever(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank in code that holds Python's lock cannot answer, and may wait for the others there."""
    monkeypatch.setattr(rank_live_gate, "_GATE_S", 0.2)
    job.start()
    job.supervisor.hello()
    job.supervisor.server.switch({"workers": 3})
    eventually(lambda: all(rank.agent.passive for rank in job.ranks))
    assert [rank.value for rank in job.ranks] == ["start"] * RANKS


# --- who comes ---------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, 2])
def test_nobody_waits_for_a_rank_that_does_not_come(job: Job, late: int) -> None:
    job.start(*{0, 1, 2} - {late}, least=MOST)
    while job.supervisor.server.come < RANKS - 1:
        job.supervisor.server.receive(0.05)
    before = [rank.iteration for rank in job.ranks]
    time.sleep(0.1)
    assert [rank.iteration > was for rank, was in zip(job.ranks, before, strict=True)] == [
        rank != late for rank in range(RANKS)
    ]
    assert not job.supervisor.server.listens()


def test_without_the_tool_no_rank_waits(job: Job) -> None:
    job.supervisor.close()
    job.start(least=5)
    job.join()
    eventually(lambda: all(rank.agent.passive for rank in job.ranks))


def test_only_a_tool_that_knows_the_secret_is_obeyed(job: Job) -> None:
    job.place["secret"] = "another"
    job.start(least=300)
    while not all(rank.agent.passive for rank in job.ranks):
        job.supervisor.server.receive(0.01)
    assert job.supervisor.server.come == 0
    assert job.supervisor.server.problem == "", "a stranger does not end it for others"


def test_of_several_addresses_the_one_of_the_tool_is_found(job: Job) -> None:
    with socket.create_server(("127.0.0.2", job.place["port"])):  # says nothing
        job.place["addresses"] = ["127.0.0.3", "127.0.0.2", "127.0.0.1"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rank_live_line, "_DIAL_S", 0.3)
            job.start()
            job.supervisor.hello()
    job.finish()


# --- the program's own end ---------------------------------------------------------------


def test_at_the_programs_own_end_all_wait_for_an_order(job: Job) -> None:
    job.start(least=5)
    job.supervisor.hello()
    assert job.supervisor.wait_for_over() == 5
    time.sleep(0.2)
    assert [rank.iteration for rank in job.ranks] == [5] * RANKS, "they wait"
    job.supervisor.switch(workers=4)
    job.finish()
    assert [value for _, value in job.seen()] == [4]
    assert all(rank.iteration > 5 for rank in job.ranks)


def test_a_tool_that_is_gone_by_then_keeps_nobody(job: Job) -> None:
    job.start(least=5)
    job.supervisor.wait_for_over()
    job.supervisor.close()
    job.join()
    assert [rank.iteration for rank in job.ranks] == [5] * RANKS


# --- what is told ------------------------------------------------------------------------


def alone(supervisor: Supervisor) -> Any:
    """The gate of the only rank."""
    place = json.loads(supervisor.path.read_text())
    gate = rank_live_gate.Gate(place, 0, 1, rank_live_knobs.Knobs())
    gate.boundary(2, "chainer")
    supervisor.hello()
    eventually(lambda: gate._line is not None)
    return gate


def test_with_very_many_files_open_it_waits_too(supervisor: Supervisor) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1200, hard), hard))
    with ExitStack() as files:
        for _ in range(1024):
            files.enter_context(Path(os.devnull).open())
        gate = alone(supervisor)
        time.sleep(0.2)
        assert not gate.passive
        gate.leave()


def test_the_end_is_seen_though_a_worker_has_inherited_the_line(supervisor: Supervisor) -> None:
    gate = alone(supervisor)
    inherited = os.dup(gate._line._socket.fileno())
    gate.leave()
    supervisor.wait_for_end()
    os.close(inherited)


def test_a_tool_that_does_not_read_is_not_waited_for(supervisor: Supervisor) -> None:
    """It thinks for seconds between two windows; iterations of microseconds fill the socket."""
    gate, last = alone(supervisor), 1_000_000
    begun_s = time.monotonic()
    for iteration in range(2, last):
        gate.ended(2e-5, False)
        gate.boundary(iteration + 1, "chainer")
    eventually(lambda: not gate._steps)
    assert time.monotonic() - begun_s < 50
    supervisor.steps += [
        each for each in supervisor.server.receive_all() if isinstance(each, Steps)
    ]
    counted = supervisor.counted()
    assert 1000 < len(counted) < last - 2, "some were left out"
    assert counted == sorted(set(counted))
    gate.ended(0.25, False)
    gate.leave()
    supervisor.wait_for_end()
    assert supervisor.steps[-1] == Steps(last, (0.25,)), "and counted nevertheless"


def test_an_evaluation_is_told_with_the_iteration_before_it(supervisor: Supervisor) -> None:
    gate = alone(supervisor)
    gate.lengthen(9.0)  # no iteration has ended yet
    for iteration, marked in ((2, False), (3, True)):
        gate.ended(0.25, marked)
        time.sleep(0.2)  # the thread does not tell of it before
        gate.lengthen(0.5)
        gate.boundary(iteration + 1, "chainer")
    gate.leave()
    supervisor.wait_for_end()
    told = [each for steps in supervisor.steps for each in steps.timings()]
    assert told == [(2, 0.75, True), (3, 0.75, True)]
