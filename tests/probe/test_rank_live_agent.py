"""How the agent of a rank counts iterations, and the thread counts that it changes."""

from __future__ import annotations

import ast
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import PROBE, Supervisor, probe_module

rank_live_agent, rank_live_knobs = probe_module("rank_live_agent"), probe_module("rank_live_knobs")
rank_live_threads, rank_live_line = (
    probe_module("rank_live_threads"),
    probe_module("rank_live_line"),
)


class Polls:
    """Keeps what the agent says: at which iterations it was at a boundary, and what it told."""

    passive = pauses = False

    def __init__(self) -> None:
        self.boundaries: list[tuple[int, str]] = []
        self.overs: list[int] = []
        self.told: list[bool] = []

    @property
    def met(self) -> bool:
        return bool(self.boundaries)

    def boundary(self, iteration: int, hook: str) -> None:
        self.boundaries.append((iteration, hook))

    def over(self) -> None:
        self.overs.append(len(self.told))

    def ended(self, elapsed_s: float, marked: bool) -> None:
        assert elapsed_s >= 0
        self.told.append(marked)


@pytest.fixture
def polls() -> Polls:
    return Polls()


@pytest.fixture
def agent(polls: Polls) -> Any:
    return rank_live_agent.Agent(polls, rank_live_knobs.Knobs())


def update(agent: Any, mark: bool = False) -> None:
    """As the hook on Chainer does; like the others it asks first."""
    if not agent.idle:
        agent.begins("chainer")
        agent.ran("chainer", 0.1, mark)


def stepped(agent: Any, hook: str = "torch") -> None:
    if not agent.idle:
        agent.stepped(hook)


def test_a_program_that_steps_is_at_a_boundary_from_the_first_on(agent: Any, polls: Polls) -> None:
    for _ in range(3):
        agent.step()
    assert polls.boundaries == [(2, "session"), (3, "session"), (4, "session")]


def test_the_first_boundary_of_a_hook_is_let_pass(agent: Any, polls: Polls) -> None:
    for _ in range(3):
        update(agent)
    assert polls.boundaries == [(2, "chainer"), (3, "chainer")]


def test_a_step_of_pytorch_ends_an_iteration(agent: Any, polls: Polls) -> None:
    for _ in range(3):
        stepped(agent)
    assert polls.boundaries == [(3, "torch"), (4, "torch")]


@pytest.mark.parametrize("hook", [update, stepped])
def test_a_program_that_steps_itself_turns_the_hooks_off(
    agent: Any, polls: Polls, hook: Any
) -> None:
    for _ in range(3):
        hook(agent)
        agent.step()
    assert polls.boundaries == [(2, "session"), (3, "session"), (4, "session")]


def test_a_program_that_begins_to_step_late_goes_on_from_there(agent: Any, polls: Polls) -> None:
    for _ in range(3):
        update(agent)
    told = len(polls.told)
    for _ in range(3):
        update(agent)
        agent.step()
    # Where the program takes over there is no boundary; no iteration is counted twice.
    assert polls.boundaries[2:] == [(4, "chainer"), (6, "session"), (7, "session")]
    assert len(polls.told) - told == 3


def test_the_hook_that_came_first_counts(agent: Any, polls: Polls) -> None:
    for _ in range(3):
        stepped(agent)
        update(agent)
    assert polls.boundaries == [(3, "torch"), (4, "torch")]


def test_marks_are_of_the_iteration_that_they_came_in(agent: Any, polls: Polls) -> None:
    agent.step()
    agent.step(mark=True)
    agent.mark()
    agent.step()
    agent.step()
    assert polls.told == [False, True, True, False]


def test_an_epochs_end_and_an_evaluation_mark_two_iterations(agent: Any, polls: Polls) -> None:
    update(agent, mark=True)
    agent.mark()
    update(agent)
    update(agent)
    assert polls.told == [True, True, False]


def test_only_one_thread_counts(agent: Any, polls: Polls) -> None:
    agent.step()
    other = threading.Thread(
        target=lambda: [each(agent) for each in (rank_live_agent.Agent.step, stepped, update)]
    )
    other.start()
    other.join()
    assert polls.boundaries == [(2, "session")]


def test_a_forked_child_takes_no_part(agent: Any, polls: Polls) -> None:
    assert not agent.more()
    polls.boundaries.append((2, "session"))
    assert agent.more()
    child = os.fork()
    if not child:
        agent.step()
        os._exit(len(polls.boundaries) - 1 + 2 * agent.more() + 4 * (not agent.idle))
    assert os.waitpid(child, 0)[1] == 0


# --- threads -----------------------------------------------------------------------------


@pytest.fixture
def pools() -> Any:
    pytest.importorskip("numpy")
    found = rank_live_threads.Pools()
    assert found.begin()
    yield found
    found.apply(None)


def test_every_pool_is_set_and_read_back(pools: Any) -> None:
    pools.apply(1)
    assert pools.read() == 1
    assert {threads for _, threads in rank_live_threads.state()["pools"]} == {1}
    assert rank_live_threads.state()["blas_threads"] == 1


def test_a_count_is_capped_at_the_cpus_of_the_rank(pools: Any) -> None:
    pools.apply(1000)
    assert pools.read() <= len(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        pools.apply(2)
        assert pools.read() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_null_gives_each_pool_its_own_back(pools: Any) -> None:
    before = rank_live_threads.state()["pools"]
    pools.apply(1)
    pools.apply(None)
    assert rank_live_threads.state()["pools"] == before


def test_a_pool_that_is_seen_late_starts_as_it_was_seen() -> None:
    pools = rank_live_threads.Pools()
    before = rank_live_threads.state()["pools"]
    pools.apply(1)
    pools.apply(None)
    assert rank_live_threads.state()["pools"] == before


def test_opencv_can_be_set_where_no_worker_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cv2 = pytest.importorskip("cv2")
    monkeypatch.setattr(rank_live_threads, "has_children", lambda: True)
    assert "opencv_threads" not in rank_live_knobs.Knobs().begin()
    monkeypatch.setattr(rank_live_threads, "has_children", lambda: False)
    knobs = rank_live_knobs.Knobs()
    before = knobs.begin()["opencv_threads"]
    assert before == cv2.getNumThreads()
    assert knobs.change({"opencv_threads": before + 2}) == []
    assert knobs.state(0, [])["opencv_threads"] == before + 2
    assert knobs.change({"opencv_threads": None}) == []
    assert cv2.getNumThreads() == before


def test_a_worker_is_seen() -> None:
    rank = os.fork()
    if not rank:
        alone = rank_live_threads.has_children()
        read, write = os.pipe()
        if not os.fork():
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os._exit(2 * alone + rank_live_threads.has_children())
    assert os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) == 1


# --- lines -------------------------------------------------------------------------------


def test_of_very_many_ranks_the_lesser_parts_are_left_out() -> None:
    lines: list[dict[str, Any]] = []

    class Line(rank_live_line.Line):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.send = lines.append

    def ranks(number: int) -> list[dict[str, Any]]:
        row = {"values": {"omp_threads": 1}, "affinity": list(range(128)), "pools": [["a", 1]]}
        return [row] * number

    Line().send_fitting({"ranks": ranks(8)})
    Line().send_fitting({"ranks": ranks(500)})
    assert lines[0]["ranks"] == ranks(8)
    assert lines[1]["ranks"][0] == {**ranks(1)[0], "affinity": []}


def test_the_end_is_seen_though_a_worker_has_inherited_the_line(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path)
    line = rank_live_line.Line(str(supervisor.path))
    inherited = os.dup(line._socket.fileno())
    line.close()
    line.close()  # at the exit, after the rank has become passive
    assert supervisor.until("none") is None
    os.close(inherited)
    supervisor.close()


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.name)
def test_it_is_written_for_old_pythons(path: Any) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


def test_the_programs_own_end_is_told_once(agent: Any, polls: Polls) -> None:
    polls.pauses = True
    agent.over()
    for _ in range(3):
        agent.step()
    assert not agent.more(), "nobody has been told of the end"
    agent.over()
    agent.over()
    assert agent.more()
    agent.step()
    assert agent.more()
    assert polls.overs == [3]


def test_where_nobody_asks_for_it_no_end_is_told(agent: Any, polls: Polls) -> None:
    for _ in range(3):
        agent.step()
    agent.over()
    assert agent.more()
    assert polls.overs == []
