"""Ranks that are threads, and a supervisor that the test plays: what all ranks do alike."""

from __future__ import annotations

import os
import random
import resource
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import Supervisor, probe_module

rank_live_sync, rank_live_knobs = probe_module("rank_live_sync"), probe_module("rank_live_knobs")
rank_live, rank_live_line = probe_module("rank_live"), probe_module("rank_live_line")

RANKS = 3
MOST = 20_000  # iterations of a test that does not end


class Rank:
    """One rank's loop, which a knob ends; what it did is kept: (iteration, value)."""

    def __init__(self, supervisor: Supervisor, rank: int, pauses: bool = False) -> None:
        self.knobs = rank_live_knobs.Knobs()
        self.sync = rank_live_sync.SyncPoints(str(supervisor.path), rank, RANKS, self.knobs, pauses)
        self.agent = rank_live.Agent(self.sync, self.knobs)
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

    def loop(self, least: int = 5) -> None:
        """Says when it is at its end."""
        while not self.ended and (self.iteration < least or self.agent.more()):
            assert self.iteration < MOST
            time.sleep(random.random() * 1e-3)
            self.iteration += 1
            self.agent.step()
            if self.iteration == least:
                self.agent.over()


class Job:
    def __init__(self, supervisor: Supervisor, pauses: bool = False) -> None:
        self.supervisor = supervisor
        self.ranks = [Rank(supervisor, rank, pauses) for rank in range(RANKS)]
        self._pool = ThreadPoolExecutor(RANKS)
        self._loops: list[Future[None]] = []

    def start(self, *ranks: int) -> None:
        self._loops = [self._pool.submit(self.ranks[n].loop) for n in ranks or range(RANKS)]

    def hello(self) -> dict[str, Any]:
        self.start()
        return self.supervisor.hello()

    def join(self) -> None:
        for loop in self._loops:
            loop.result(60)

    def finish(self) -> None:
        self.supervisor.switch(99, end=1)
        self.join()

    def alone(self) -> bool:
        """Whether none takes part any more, since the same iteration."""
        assert len({rank.iteration for rank in self.ranks}) == 1
        return all(rank.agent.passive for rank in self.ranks)

    def seen(self) -> list[tuple[int, Any]]:
        """What every rank saw, at the same iterations."""
        seen = [rank.seen for rank in self.ranks]
        assert seen == [seen[0]] * RANKS
        return seen[0]


@pytest.fixture
def job(supervisor: Supervisor) -> Job:
    return Job(supervisor)


def test_the_hello_says_who_is_there_and_what_all_can_change(job: Job) -> None:
    for rank in job.ranks[1:]:
        rank.agent.offer("not of rank 0", print)
    job.ranks[0].agent.offer("of rank 0", print)
    hello = job.hello()
    job.finish()
    can = hello.pop("can")
    assert can["workers"] == "start"
    assert set(can) - {"omp_threads", "opencv_threads"} == {"workers", "end"}
    assert hello == {
        "type": "hello",
        "protocol": 2,
        "ranks": RANKS,
        "pid": os.getpid(),
        "hook": "session",
        "iteration": 2,
    }


def test_all_ranks_change_at_the_same_iteration(job: Job) -> None:
    job.hello()
    told = []
    for number in range(1, 8):
        answer = job.supervisor.switch(number, workers=number)
        assert answer["number"] == number
        assert answer["took_s"] >= 0
        assert [rank["rank"] for rank in answer["ranks"]] == [0, 1, 2]
        assert [rank["values"]["workers"] for rank in answer["ranks"]] == [number] * RANKS
        assert [rank["errors"] for rank in answer["ranks"]] == [{}] * RANKS
        told.append((answer["iteration"] - 1, number))  # the loops count what has ended
        time.sleep(random.random() * 0.05)
    job.finish()
    assert job.seen() == told


def test_every_iteration_is_told_of_once(job: Job) -> None:
    job.hello()
    for number in range(1, 5):
        job.supervisor.switch(number, workers=number)
        time.sleep(0.05)
    job.finish()
    assert len({rank.iteration for rank in job.ranks}) == 1, "the end is the same for all"
    assert not any(rank.agent.passive for rank in job.ranks)
    job.ranks[0].sync._exit()  # as when its process ends
    assert job.supervisor.until("none") is None
    counted = job.supervisor.counted()
    assert counted == list(range(2, 2 + len(counted)))
    assert counted[-1] == job.ranks[0].iteration == job.supervisor.made


def test_without_the_supervisor_the_job_goes_on_alone(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_live_sync, "_IN_VAIN_S", 0.0)
    job.hello()
    job.supervisor.switch(1, workers=7)
    job.supervisor.close()
    job.join()
    assert job.alone()
    assert [rank.value for rank in job.ranks] == [7] * RANKS
    assert not (tmp_path / "ranks-waited").exists()


@pytest.mark.parametrize("text", [b"garbage\n", b"\xff\n", b"x" * 70_000])
def test_a_supervisor_that_says_nonsense_is_left_but_new_words_are_passed_over(
    job: Job, text: bytes
) -> None:
    job.hello()
    job.supervisor.raw(b'{"type":"later"}\n[1]\n{"type":"switch","values":3}\n{"type":"swi')
    job.supervisor.raw(b'tch","number":4,"values":{"workers":2}}\n')
    assert (job.supervisor.until("switched") or {})["number"] == 4
    job.supervisor.raw(text)
    job.join()
    assert job.alone()


# --- what goes wrong ---------------------------------------------------------------------


def broken(*_: Any) -> None:
    raise ValueError("not\nhere")


def test_a_knob_that_fails_on_one_rank_is_told(job: Job) -> None:
    for rank in job.ranks:
        rank.agent.offer("odd", broken if rank.rank == 1 else print)
        rank.agent.offer("unread", print, broken)
    assert job.hello()["can"]["unread"] is None
    states = job.supervisor.switch(1, odd=1, workers=3, unknown=5)["ranks"]
    always = {"unknown": "cannot be changed here", "unread": "ValueError: not here"}
    assert [state["errors"] for state in states] == [
        always | ({"odd": "ValueError: not here"} if rank == 1 else {}) for rank in range(RANKS)
    ]
    assert [state["values"]["workers"] for state in states] == [3] * RANKS
    errors = job.supervisor.switch(2, workers=4)["ranks"][1]["errors"]
    assert errors == {"unread": "ValueError: not here"}
    job.finish()


@pytest.mark.parametrize("rank", range(RANKS))
def test_a_rank_that_goes_keeps_nobody(job: Job, tmp_path: Path, rank: int) -> None:
    job.hello()
    job.supervisor.switch(1, workers=3)
    job.ranks[rank].sync._exit()  # as when its process ends
    with suppress(BrokenPipeError, ConnectionResetError):
        for number in range(2, 1000):
            job.supervisor.send(type="switch", number=number, values={"workers": 4})
            if job.supervisor.until("switched") is None:
                break
    job.join()
    assert all(rank.agent.passive for rank in job.ranks)
    assert [path.name for path in tmp_path.iterdir()] == ["live"], "and nobody waited"


def test_a_rank_that_is_not_heard_of_is_not_waited_for_for_ever(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_live_sync, "SILENCE_S", 1.2)
    hangs = threading.Event()
    job.ranks[1].agent.offer("workers", lambda _: hangs.wait(60))
    job.hello()
    job.supervisor.send(type="switch", number=1, values={"workers": 3})
    assert job.supervisor.until("switched") is None
    hangs.set()
    job.join()
    assert all(rank.agent.passive for rank in job.ranks)
    assert (tmp_path / "ranks-waited").exists(), "what the job's clock says is no measure"


# --- the meeting -------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, 2])
def test_a_rank_that_does_not_come_leaves_all_as_they_were(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    monkeypatch.setattr(rank_live_sync, "MEETING_S", 1.2)
    job.start(*{0, 1, 2} - {late})
    job.join()
    job.start(late)
    job.join()
    assert job.alone()
    assert job.ranks[0].iteration == 5
    assert (tmp_path / "ranks-waited").exists()


def test_without_the_supervisor_no_rank_waits(
    job: Job, supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.close()
    job.start()
    job.join()
    assert job.alone()
    supervisor.path.unlink()
    job = Job(supervisor)
    job.start()
    job.join()
    assert job.alone()
    assert list(tmp_path.iterdir()) == []


def test_nobody_else_of_the_host_is_met(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: -1)  # no rank is ours then
    job.start()
    job.join()
    assert job.alone()


# --- the program's own end ---------------------------------------------------------------


def test_at_the_programs_own_end_rank_0_waits_for_an_order(supervisor: Supervisor) -> None:
    job = Job(supervisor, pauses=True)
    job.hello()
    over = supervisor.until("over")
    assert over is not None and over["iterations"] == 5
    time.sleep(0.2)
    assert job.ranks[0].iteration == 5, "it waits"
    supervisor.switch(1, workers=4)
    job.finish()
    assert [value for _, value in job.seen()] == [4]
    assert all(rank.iteration > 5 for rank in job.ranks)


def test_a_supervisor_that_is_gone_by_then_keeps_nobody(supervisor: Supervisor) -> None:
    job = Job(supervisor, pauses=True)
    job.hello()
    supervisor.until("over")
    supervisor.close()
    job.join()
    assert job.alone()


# --- the connection ----------------------------------------------------------------------


def tool(supervisor: Supervisor) -> Any:
    """The supervisor as rank 0 sees it."""
    return rank_live_sync.Tool(rank_live_line.to_tool(str(supervisor.path)))


def test_with_very_many_files_open_it_waits_too(supervisor: Supervisor) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1200, hard), hard))
    with ExitStack() as files:
        for _ in range(1024):
            files.enter_context(Path(os.devnull).open())
        line = rank_live_line.to_tool(str(supervisor.path))
        assert not line.wait(0.01)
        line.close()


def test_the_end_is_seen_though_a_worker_has_inherited_the_line(supervisor: Supervisor) -> None:
    line = rank_live_line.to_tool(str(supervisor.path))
    inherited = os.dup(line._socket.fileno())
    line.close()
    assert supervisor.until("none") is None
    os.close(inherited)


def test_a_supervisor_that_does_not_read_is_not_waited_for(supervisor: Supervisor) -> None:
    """It thinks for seconds between two windows; iterations of microseconds fill the socket."""
    seen = tool(supervisor)
    seen.hello(1, "session", {}, 1)
    iteration = 1
    for _ in range(200):
        for _ in range(1000):
            seen.add(2e-5, False)
        iteration += 1000
        assert seen.poll(iteration)["switch"] is None
    supervisor.hello()
    supervisor.send(type="switch", number=1, values={})
    assert seen.poll(iteration)["switch"] == {"number": 1, "values": {}}
    seen.add(0.5, False)
    seen.switched(1, iteration, 0.0, [{}])
    assert supervisor.until("switched") is not None
    seen.add(0.25, False)
    seen.poll(iteration + 2)
    seen.end()
    seen.close()
    assert supervisor.until("none") is None
    counted = supervisor.counted()
    assert 1000 < len(counted) < iteration, "some were left out"
    assert len(set(counted)) == len(counted)
    last = supervisor.steps[-1]
    assert (last["first"], last["s"]) == (iteration, [0.5, 0.25]), "and counted nevertheless"


def test_an_evaluation_is_told_with_the_iteration_before_it(supervisor: Supervisor) -> None:
    seen = tool(supervisor)
    seen.hello(1, "chainer", {}, 2)
    seen.lengthen(9.0)  # no iteration has ended yet
    for marked in (False, True):
        seen.add(0.25, marked)
        seen.lengthen(0.5)
    seen.end()
    seen.close()
    supervisor.hello()
    assert supervisor.until("none") is None
    (steps,) = supervisor.steps
    assert (steps["first"], steps["s"], steps["marks"]) == (2, [0.75, 0.75], [2, 3])


def test_of_very_many_ranks_the_lesser_parts_are_left_out(supervisor: Supervisor) -> None:
    row = {"values": {"omp_threads": 1}, "affinity": list(range(128)), "pools": [["a", 1]]}
    seen = tool(supervisor)
    seen.hello(1, "session", {}, 1)
    supervisor.hello()
    for number, affinity in ((8, row["affinity"]), (500, [])):
        seen.switched(1, 1, 0.0, [row] * number)
        found = supervisor.until("switched")
        assert found is not None and found["ranks"] == [{**row, "affinity": affinity}] * number
    seen.close()
