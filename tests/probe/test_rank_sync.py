"""Ranks that are threads, and a supervisor that the test plays: what all ranks do alike."""

from __future__ import annotations

import json
import os
import queue
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.live_bench import Supervisor, Threads, probe_module

rank_live_sync, rank_live_knobs = probe_module("rank_live_sync"), probe_module("rank_live_knobs")
rank_live, rank_live_report = probe_module("rank_live"), probe_module("rank_live_report")
rank_live_links = probe_module("rank_live_links")

RANKS = 3
MOST = 20_000  # iterations of a test that does not end


class Rank:
    """One rank's loop, which a knob ends; what it did is kept: (iteration, value)."""

    def __init__(self, supervisor: Supervisor, transport: Any, pauses: bool = False) -> None:
        self.knobs = rank_live_knobs.Knobs()
        self.sync = rank_live_sync.SyncPoints(
            str(supervisor.path), transport.rank, self.knobs, lambda _: transport, pauses
        )
        self.agent = rank_live.Agent(self.sync, self.knobs)
        self.transport, self.rank = transport, transport.rank
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

    def plain_loop(self) -> None:
        """Says when it is at its end."""
        while not self.ended and (self.iteration < 5 or self.agent.more()):
            assert self.iteration < MOST
            self.iteration += 1
            self.agent.step()
            if self.iteration == 5:
                self.agent.over()

    def loop(self, least: int = 5) -> None:
        while not self.ended and (self.iteration < least or self.agent.more()):
            assert self.iteration < MOST
            time.sleep(random.random() * 1e-3)
            self.iteration += 1
            self.agent.step()


class Job:
    def __init__(self, supervisor: Supervisor, pauses: bool = False) -> None:
        down: list[queue.Queue[str]] = [queue.Queue() for _ in range(RANKS)]
        up: list[queue.Queue[str]] = [queue.Queue() for _ in range(RANKS)]
        self.supervisor = supervisor
        self.ranks = [Rank(supervisor, Threads(n, down, up), pauses) for n in range(RANKS)]
        self._pool = ThreadPoolExecutor(RANKS)
        self._loops: list[Future[None]] = []

    def start(self) -> dict[str, Any]:
        self._loops = [self._pool.submit(rank.loop) for rank in self.ranks]
        return self.supervisor.hello()

    def join(self) -> None:
        for loop in self._loops:
            loop.result(60)

    def alike(self) -> list[tuple[int, Any]]:
        """What every rank saw, at the same iterations."""
        seen = [rank.seen for rank in self.ranks]
        assert seen == [seen[0]] * RANKS
        return seen[0]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    played = Supervisor(tmp_path)
    yield played
    played.close()


@pytest.fixture
def job(supervisor: Supervisor) -> Job:
    return Job(supervisor)


def finish(job: Job) -> None:
    job.supervisor.switch(99, end=1)
    job.join()


def test_the_hello_says_who_is_there_and_what_all_can_change(job: Job) -> None:
    for rank in job.ranks[1:]:
        rank.agent.offer("not of rank 0", print)
    job.ranks[0].agent.offer("of rank 0", print)
    hello = job.start()
    finish(job)
    can = hello.pop("can")
    assert can["workers"] == "start"
    assert set(can) - {"omp_threads", "opencv_threads"} == {"workers", "end"}
    assert hello == {
        "type": "hello",
        "protocol": 2,
        "ranks": RANKS,
        "pid": os.getpid(),
        "hook": "session",
        "transport": "threads",
        "iteration": 2,
    }


def test_all_ranks_change_at_the_same_iteration(job: Job) -> None:
    job.start()
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
    finish(job)
    assert job.alike() == told


def test_every_iteration_is_told_of_once(job: Job) -> None:
    job.start()
    for number in range(1, 5):
        job.supervisor.switch(number, workers=number)
        time.sleep(0.05)
    finish(job)
    assert len({rank.iteration for rank in job.ranks}) == 1, "the end is the same for all"
    assert not any(rank.agent.passive for rank in job.ranks)
    job.ranks[0].sync._report.end()  # as at the exit
    assert job.supervisor.until("none") is None
    counted = job.supervisor.counted()
    assert counted == list(range(2, 2 + len(counted)))
    assert counted[-1] == job.ranks[0].iteration == job.supervisor.made


def test_without_the_supervisor_the_job_goes_on_alone(job: Job) -> None:
    job.start()
    job.supervisor.switch(1, workers=7)
    job.supervisor.close()
    job.join()
    assert all(rank.agent.passive for rank in job.ranks)
    assert len({rank.iteration for rank in job.ranks}) == 1
    assert [rank.value for rank in job.ranks] == [7] * RANKS


@pytest.mark.parametrize("text", [b"garbage\n", b"\xff\n", b"x" * 70_000])
def test_a_supervisor_that_says_nonsense_is_left(job: Job, text: bytes) -> None:
    job.start()
    job.supervisor.raw(text)
    job.join()
    assert all(rank.agent.passive for rank in job.ranks)


def test_what_is_not_known_is_passed_over(job: Job) -> None:
    job.start()
    job.supervisor.raw(b'{"type":"later"}\n[1]\n{"type":"switch","values":3}\n')
    text = json.dumps({"type": "switch", "number": 4, "values": {"workers": 2}}).encode()
    job.supervisor.raw(text[:11])
    time.sleep(0.02)
    job.supervisor.raw(text[11:] + b"\n")
    assert (job.supervisor.until("switched") or {})["number"] == 4
    finish(job)


# --- what goes wrong ---------------------------------------------------------------------


def broken(*_: Any) -> None:
    raise ValueError("not\nhere")


def ask_until_it_ends(job: Job) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        for number in range(1000):
            job.supervisor.send(type="switch", number=number, values={"workers": 4})
            if job.supervisor.until("switched") is None:
                break
        else:
            raise AssertionError("it has not ended")
    job.join()


def test_a_knob_that_fails_on_one_rank_is_told(job: Job) -> None:
    for rank in job.ranks:
        rank.agent.offer("odd", broken if rank.rank == 1 else print)
    job.start()
    answer = job.supervisor.switch(1, odd=1, workers=3, unknown=5)
    assert [rank["errors"] for rank in answer["ranks"]] == [
        {"unknown": "cannot be changed here"}
        | ({"odd": "ValueError: not here"} if rank == 1 else {})
        for rank in range(RANKS)
    ]
    assert [rank["values"]["workers"] for rank in answer["ranks"]] == [3] * RANKS
    assert job.supervisor.switch(2, workers=4)["ranks"][1]["errors"] == {}
    finish(job)


def test_a_value_that_cannot_be_read_is_told(job: Job) -> None:
    for rank in job.ranks:
        rank.agent.offer("odd", print, broken)
    assert job.start()["can"]["odd"] is None
    state = job.supervisor.switch(1, workers=3)["ranks"][2]
    assert (state["values"]["odd"], state["errors"]) == (None, {"odd": "ValueError: not here"})
    finish(job)


@pytest.mark.parametrize(
    ("rank", "call"), [(0, "tell"), (0, "collect"), (1, "hear"), (1, "answer"), (2, "hear")]
)
def test_a_rank_whose_transport_fails_ends_it_for_all(
    job: Job, rank: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_live_sync, "SILENCE_S", 1.0)  # before a rank waits by it
    job.start()
    job.supervisor.switch(1, workers=3)
    monkeypatch.setattr(job.ranks[rank].transport, call, broken)
    ask_until_it_ends(job)
    assert all(rank.agent.passive for rank in job.ranks)


def test_a_rank_that_ends_early_keeps_nobody(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_live_sync, "SILENCE_S", 0.3)
    gone = job.ranks[1]
    monkeypatch.setattr(gone.agent, "more", lambda: False)
    job.start()
    ask_until_it_ends(job)
    assert gone.iteration == 5
    assert job.ranks[0].agent.passive
    assert job.ranks[2].agent.passive


def test_who_ends_is_noted_for_the_others_until_all_have_ended(job: Job, tmp_path: Path) -> None:
    job.start()
    finish(job)
    job.ranks[0].sync._exit()  # as at the exit
    left = [job.ranks[1].sync._status.has_left(rank) for rank in range(RANKS)]
    assert left == [True, False, False]
    for rank in job.ranks:
        rank.sync._exit()
    assert [path.name for path in tmp_path.iterdir()] == ["live"], "and nobody waited"


@pytest.mark.parametrize(("waited_s", "parted"), [(0.0, []), (9.0, ["1"])])
def test_a_wait_in_vain_is_noted_if_it_was_long(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waited_s: float, parted: list[str]
) -> None:
    job.start()
    finish(job)
    clock = iter([0.0, waited_s])
    monkeypatch.setattr(rank_live_sync, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    sync = job.ranks[1].sync
    monkeypatch.setattr(sync._transport, "hear", broken)
    sync.boundary(MOST, "session")
    assert sync.passive
    assert [path.name[-1] for path in tmp_path.glob("parted-*")] == parted


# --- the meeting -------------------------------------------------------------------------


def test_a_rank_that_does_not_come_leaves_all_as_they_were(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_live_sync, "LIMIT_S", 0.1)
    loops = [job._pool.submit(rank.loop) for rank in job.ranks[1:]]
    for loop in loops:
        loop.result(60)
    job.ranks[0].loop()  # too late
    assert all(rank.agent.passive for rank in job.ranks)
    assert [rank.iteration for rank in job.ranks] == [5] * RANKS


def gone(job: Job) -> None:
    job.supervisor.close()


def other_means(job: Job) -> None:
    job.ranks[2].transport.name = "smoke"


@pytest.mark.parametrize("amiss", [gone, other_means])
def test_ranks_that_do_not_agree_go_on_as_they_were(job: Job, amiss: Callable[[Job], None]) -> None:
    amiss(job)
    for loop in [job._pool.submit(rank.loop) for rank in job.ranks]:
        loop.result(60)
    assert all(rank.agent.passive for rank in job.ranks)


def test_a_rank_does_not_wait_beyond_its_limit_if_the_folder_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "socket").touch()
    meeting = rank_live_links.Rendezvous(str(folder / "socket"), rank=0, size=2)
    with ThreadPoolExecutor() as pool:
        agreed = pool.submit(meeting.agreed, "mpi", lambda: True, 0.5)
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.01)
        shutil.rmtree(folder)
        assert agreed.result(timeout=30) is False


def test_without_a_transport_rank_0_says_why(supervisor: Supervisor) -> None:
    def refuse(_: int) -> None:
        raise rank_live_sync.RefusedError("no MPI")

    for rank in range(2):
        sync = rank_live_sync.SyncPoints(
            str(supervisor.path), rank, rank_live_knobs.Knobs(), refuse
        )
        sync.boundary(2, "session")
        assert sync.passive and not sync.met
    assert supervisor.until("refused") == {"type": "refused", "why": "no MPI"}
    assert supervisor.until("refused") is None


def test_at_the_programs_own_end_rank_0_waits_for_an_order(supervisor: Supervisor) -> None:
    job = Job(supervisor, pauses=True)
    job._loops = [job._pool.submit(rank.plain_loop) for rank in job.ranks]
    supervisor.hello()
    over = supervisor.until("over")
    assert over is not None and over["iterations"] == 5
    time.sleep(0.2)
    assert job.ranks[0].iteration == 5, "it waits"
    supervisor.switch(1, workers=4)
    finish(job)
    assert [value for _, value in job.alike()] == [4]
    assert all(rank.iteration > 5 for rank in job.ranks)


def test_with_very_many_files_open_it_waits_too(supervisor: Supervisor) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1200, hard), hard))
    with ExitStack() as files:
        for _ in range(1024):
            files.enter_context(Path(os.devnull).open())
        line = rank_live_report.Line(str(supervisor.path))
        line.wait(0.01)
        line.close()


def test_what_fails_at_the_programs_own_end_is_not_the_programs(job: Job) -> None:
    job.start()
    job.ranks[0].sync._report.over = broken
    job.ranks[0].sync.over()
    job.join()
    assert all(rank.agent.passive for rank in job.ranks)


def test_a_supervisor_that_is_gone_by_then_keeps_nobody(supervisor: Supervisor) -> None:
    job = Job(supervisor, pauses=True)
    job._loops = [job._pool.submit(rank.plain_loop) for rank in job.ranks]
    supervisor.hello()
    supervisor.until("over")
    supervisor.close()
    job.join()
    assert len({rank.iteration for rank in job.ranks}) == 1


# --- the connection ----------------------------------------------------------------------


def test_the_end_is_seen_though_a_worker_has_inherited_the_line(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    line = rank_live_report.Line(str(supervisor.path))
    inherited = os.dup(line._socket.fileno())
    line.close()
    line.close()  # at the exit, after the rank has become passive
    assert supervisor.until("none") is None
    os.close(inherited)
    supervisor.close()


def test_a_supervisor_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    """It thinks for seconds between two windows; iterations of microseconds fill the socket."""
    supervisor = Supervisor(tmp_path)
    report = rank_live_report.Report(rank_live_report.Line(str(supervisor.path)))
    report.hello(SimpleNamespace(size=1, name="none"), "session", {}, 1)
    iteration = 1
    begun_s = time.monotonic()
    for _ in range(200):
        for _ in range(1000):
            report.add(2e-5, False)
        iteration += 1000
        assert report.poll(iteration) is not None
    assert time.monotonic() - begun_s < rank_live_report._LIMIT_S
    supervisor.hello()
    supervisor.send(type="switch", number=1, values={})
    assert report.poll(iteration)["switch"] == {"number": 1, "values": {}}
    report.add(0.5, False)
    report.switched(1, iteration, 0.0, [{}])
    assert supervisor.until("switched") is not None
    report.add(0.25, False)
    report.poll(iteration + 2)
    report.end()
    assert supervisor.until("none") is None
    supervisor.close()
    counted = supervisor.counted()
    assert 1000 < len(counted) < iteration, "some were left out"
    assert len(set(counted)) == len(counted)
    last = supervisor.steps[-1]
    assert (last["first"], last["s"]) == (iteration, [0.5, 0.25]), "and counted nevertheless"


def test_of_very_many_ranks_the_lesser_parts_are_left_out(supervisor: Supervisor) -> None:
    row = {"values": {"omp_threads": 1}, "affinity": list(range(128)), "pools": [["a", 1]]}
    report = rank_live_report.Report(rank_live_report.Line(str(supervisor.path)))
    report.hello(SimpleNamespace(size=1, name="none"), "session", {}, 1)
    supervisor.hello()
    for number, affinity in ((8, row["affinity"]), (500, [])):
        report.switched(1, 1, 0.0, [row] * number)
        found = supervisor.until("switched")
        assert found is not None and found["ranks"] == [{**row, "affinity": affinity}] * number
    report.close()
