"""How the agent of a rank counts iterations."""

from __future__ import annotations

import ast
import os
from typing import Any

import pytest

from tests.live_bench import PROBE, probe_module

rank_live, rank_live_knobs = probe_module("rank_live"), probe_module("rank_live_knobs")


class Gate:
    """Keeps what the agent says: at which iterations it was at a boundary, and which are marked."""

    passive = was_ordered = False

    def __init__(self) -> None:
        self.boundaries: list[tuple[int, str]] = []
        self.marks: list[bool] = []
        self.waits = 0

    @property
    def has_begun(self) -> bool:
        return bool(self.boundaries)

    def boundary(self, iteration: int, hook: str) -> None:
        self.boundaries.append((iteration, hook))

    def wait(self) -> None:
        self.waits += 1
        self.was_ordered = True

    def note_iteration(self, elapsed_s: float, is_marked: bool) -> None:
        assert elapsed_s >= 0
        self.marks.append(is_marked)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def agent(gate: Gate) -> Any:
    return rank_live.Agent(gate, rank_live_knobs.Knobs())


def update(agent: Any) -> None:
    """Do as the hook on Chainer does, which asks first, as the others do."""
    if not agent.idle:
        agent.iteration_begins("chainer")
        agent.iteration_ended("chainer", 0.1)


def optimizer_step(agent: Any) -> None:
    if not agent.idle:
        agent.iteration_passed("torch")


def step(agent: Any) -> None:
    agent.step()


@pytest.mark.parametrize(
    ("calls", "boundaries"),
    [
        ([update] * 3, [(2, "chainer"), (3, "chainer")]),
        ([optimizer_step] * 3, [(3, "torch"), (4, "torch")]),
        ([optimizer_step, update] * 3, [(3, "torch"), (4, "torch")]),
        ([update, step] * 3, [(2, "session"), (3, "session"), (4, "session")]),
        ([optimizer_step, step] * 3, [(2, "session"), (3, "session"), (4, "session")]),
        # Where the program takes over there is no boundary; no iteration is counted twice.
        (
            [update] * 3 + [update, step] * 3,
            [*((n, "chainer") for n in (2, 3, 4)), (6, "session"), (7, "session")],
        ),
    ],
)
def test_the_programs_own_steps_count_else_the_hook_that_came_first(
    agent: Any, gate: Gate, calls: list[Any], boundaries: list[tuple[int, str]]
) -> None:
    for call in calls:
        call(agent)
    assert gate.boundaries == boundaries


def test_marks_are_of_the_iteration_that_they_came_in(agent: Any, gate: Gate) -> None:
    optimizer_step(agent)
    agent.mark()
    optimizer_step(agent)
    optimizer_step(agent)
    assert gate.marks == [False, True, False]
    agent.step()
    agent.step(mark=True)
    agent.step()
    assert gate.marks[3:] == [True, False], "the first step took over from the hook"


def test_a_forked_child_takes_no_part(agent: Any, gate: Gate) -> None:
    gate.was_ordered = True
    assert agent.more()
    child = os.fork()
    if not child:
        agent.step()
        os._exit(len(gate.boundaries) + 2 * agent.more() + 4 * (not agent.idle))
    assert os.waitpid(child, 0)[1] == 0


def test_the_first_order_is_waited_for_before_a_loop_goes_on(agent: Any, gate: Gate) -> None:
    assert not agent.more(), "no iteration has ended yet"
    agent.step()
    assert agent.more() and agent.more()
    assert gate.waits == 1


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.name)
def test_it_is_written_for_old_pythons(path: Any) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))
