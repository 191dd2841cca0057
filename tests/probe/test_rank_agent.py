"""The agent of a rank: how it counts iterations, and the knobs that it changes."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from tests.live_bench import PROBE, probe_module

rank_live, rank_report = probe_module("rank_live"), probe_module("rank_report")
rank_live_knobs = probe_module("rank_live_knobs")


@pytest.fixture
def gate() -> Mock:
    """Its calls are what the agent says of boundaries and of iterations that have ended."""
    names = "boundary extends has_begun note_iteration passive wait was_ordered"
    gate = Mock(spec=names.split(), extends=True)
    gate.has_begun = gate.passive = gate.was_ordered = False
    gate.boundary.side_effect = lambda *_: gate.configure_mock(has_begun=True)
    gate.wait.side_effect = lambda: gate.configure_mock(was_ordered=True)
    return gate


def marks(gate: Mock) -> list[bool]:
    """Of each iteration that the gate was told of, whether it is marked."""
    told = [call.args for call in gate.note_iteration.call_args_list]
    assert all(elapsed_s >= 0 for elapsed_s, _ in told)
    return [is_marked for _, is_marked in told]


@pytest.fixture
def agent(gate: Mock) -> Any:
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
    agent: Any, gate: Mock, calls: list[Any], boundaries: list[tuple[int, str]]
) -> None:
    for call in calls:
        call(agent)
    assert [call.args for call in gate.boundary.call_args_list] == boundaries


def test_marks_are_of_the_iteration_that_they_came_in(agent: Any, gate: Mock) -> None:
    optimizer_step(agent)
    agent.mark()
    optimizer_step(agent)
    optimizer_step(agent)
    assert marks(gate) == [False, True, False]
    agent.step()
    agent.step(mark=True)
    agent.step()
    assert marks(gate)[3:] == [True, False], "the first step took over from the hook"


def test_a_forked_child_takes_no_part(
    agent: Any, gate: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_live, "_agent", agent)
    gate.was_ordered = True
    assert agent.more() and rank_live.agent() is agent
    child = os.fork()
    if not child:
        agent.step()
        os._exit(any((gate.boundary.called, agent.more(), not agent.idle, rank_live.agent())))
    assert os.waitpid(child, 0)[1] == 0


def test_the_first_order_is_waited_for_before_a_loop_goes_on(agent: Any, gate: Mock) -> None:
    assert not agent.more(), "no iteration has ended yet"
    agent.step()
    assert agent.more() and agent.more()
    gate.wait.assert_called_once_with()


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.name)
def test_it_is_written_for_old_pythons(path: Any) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


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


def test_what_is_offered_together_changes_once_and_fails_together(knobs: Any) -> None:
    values, changes = {"iterator_workers": 1, "prefetch": 2}, list[dict[str, int]]()

    def apply(changed: dict[str, int]) -> None:
        changes.append(changed)
        if changed.get("iterator_workers", 0) > 8:
            raise MemoryError("too\nmany")
        values.update(changed)

    knobs.offer(tuple(values), apply, lambda: values)
    knobs.offer(("chunk",), print)
    assert knobs.begin().items() >= {"iterator_workers": 1, "prefetch": 2, "chunk": None}.items()
    assert knobs.change({"iterator_workers": 4, "prefetch": 3}) == {}
    assert knobs.read({}).items() >= {"iterator_workers": 4, "prefetch": 3}.items()
    assert knobs.change({"chunk": 2}) == {}
    assert len(changes) == 1
    assert knobs.change({"prefetch": None}) == {}
    assert values == {"iterator_workers": 4, "prefetch": 2}
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
