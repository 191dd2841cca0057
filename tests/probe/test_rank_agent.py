"""How the agent of a rank counts iterations."""

from __future__ import annotations

import ast
import os
import threading
from typing import Any

import pytest

from tests.live_bench import PROBE, probe_module

rank_live, rank_live_knobs = probe_module("rank_live"), probe_module("rank_live_knobs")


class Gate:
    """Keeps what the agent says: at which iterations it was at a boundary, and what it told."""

    passive = met = whole = False

    def __init__(self) -> None:
        self.boundaries: list[tuple[int, str]] = []
        self.overs: list[int] = []
        self.waits = 0
        self.told: list[bool] = []
        self.longer: list[tuple[int, float]] = []  # which iteration of those told, and by how much

    @property
    def begun(self) -> bool:
        return bool(self.boundaries)

    def boundary(self, iteration: int, hook: str) -> None:
        self.boundaries.append((iteration, hook))

    def over(self) -> None:
        self.overs.append(len(self.told))
        self.met = True

    def wait(self) -> None:
        self.waits += 1
        self.met = True

    def ended(self, elapsed_s: float, marked: bool) -> None:
        assert elapsed_s >= 0
        self.told.append(marked)

    def lengthen(self, elapsed_s: float) -> None:
        self.longer.append((len(self.told), elapsed_s))


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def agent(gate: Gate) -> Any:
    return rank_live.Agent(gate, rank_live_knobs.Knobs())


def update(agent: Any, mark: bool = False) -> None:
    """As the hook on Chainer does; like the others it asks first."""
    if not agent.idle:
        agent.begins("chainer")
        agent.ran("chainer", 0.1, mark)


def stepped(agent: Any, hook: str = "torch") -> None:
    if not agent.idle:
        agent.stepped(hook)


@pytest.mark.parametrize("hook", [update, stepped])
def test_a_program_that_steps_itself_turns_the_hooks_off(agent: Any, gate: Gate, hook: Any) -> None:
    for _ in range(3):
        hook(agent)
        agent.step()
    assert gate.boundaries == [(2, "session"), (3, "session"), (4, "session")]


def test_a_program_that_begins_to_step_late_goes_on_from_there(agent: Any, gate: Gate) -> None:
    for _ in range(3):
        update(agent)
    told = len(gate.told)
    for _ in range(3):
        update(agent)
        agent.step()
    # Where the program takes over there is no boundary; no iteration is counted twice.
    assert gate.boundaries[2:] == [(4, "chainer"), (6, "session"), (7, "session")]
    assert len(gate.told) - told == 3


def test_the_hook_that_came_first_counts(agent: Any, gate: Gate) -> None:
    for _ in range(3):
        stepped(agent)
        update(agent)
    assert gate.boundaries == [(3, "torch"), (4, "torch")]


def test_marks_are_of_the_iteration_that_they_came_in(agent: Any, gate: Gate) -> None:
    update(agent, mark=True)  # an epoch's end
    agent.evaluated("chainer", 0.5)
    assert gate.longer == [(1, 0.5)], "it is of the iteration before"
    update(agent)
    update(agent)
    assert gate.told == [True, True, False]
    agent.step(mark=True)
    agent.evaluated("chainer", 0.5)
    agent.step()
    agent.step()
    assert gate.told[3:] == [True, False], "the first step took over from the hook"
    assert len(gate.longer) == 1, "a step has all that came since the last"


def test_only_one_thread_counts(agent: Any, gate: Gate) -> None:
    agent.step()
    other = threading.Thread(
        target=lambda: [each(agent) for each in (rank_live.Agent.step, stepped, update)]
    )
    other.start()
    other.join()
    assert gate.boundaries == [(2, "session")]


def test_a_forked_child_takes_no_part(agent: Any, gate: Gate) -> None:
    assert not agent.more()
    gate.met = True
    assert agent.more()
    child = os.fork()
    if not child:
        agent.step()
        os._exit(len(gate.boundaries) + 2 * agent.more() + 4 * (not agent.idle))
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("whole", [True, False])
def test_the_programs_own_end_is_told_once_if_no_order_has_come(
    agent: Any, gate: Gate, whole: bool
) -> None:
    gate.whole = whole
    agent.over()
    assert gate.overs == [] and not agent.more(), "no iteration has ended yet"
    for _ in range(3):
        agent.step()
    if whole:
        assert not agent.more(), "nobody has been told of the end"
    agent.over()
    agent.over()
    agent.step()
    assert agent.more()
    assert (gate.overs, gate.waits) == ([3], 0)


def test_the_first_order_is_waited_for_before_a_loop_goes_on(agent: Any, gate: Gate) -> None:
    agent.step()
    assert agent.more() and agent.more()
    assert gate.waits == 1


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.name)
def test_it_is_written_for_old_pythons(path: Any) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))
