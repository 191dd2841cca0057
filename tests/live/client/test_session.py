"""A plain loop and its end, in a study and outside of one."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import Mock

import pytest

from tests.live_agent import FakeAgent, install
from tuner import live
from tuner.live.client.session import Until

#: What `tuner.live` needs beside Python itself, loaded before the count.
IMPORT = """
import sys, typing, collections.abc, contextlib, functools, importlib
before = set(sys.modules)
from tuner import live
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("tuner.live")))
"""


def test_outside_a_study_nothing_happens() -> None:
    session = live.session()
    session.on("chunk", lambda value: pytest.fail(f"applied {value}"))
    session.step()
    session.step(mark=True)
    assert (session.active, session.more()) == (False, False)


def test_the_agent_hears_of_knobs_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = install(monkeypatch, FakeAgent())
    agent.left = 1
    session, chunks = live.session(), [8]
    session.on("chunk", chunks.append, read=lambda: chunks[-1])
    session.step()
    session.step(mark=True)
    agent.switch(chunk=16)
    assert agent.read() == {"chunk": 16}
    agent.switch(chunk=None)
    assert agent.read() == {"chunk": 8}
    assert (session.active, agent.steps) == (True, [False, True])
    assert [session.more(), session.more()] == [True, False]


def test_it_imports_nothing_but_itself() -> None:
    """It is loaded into trainers, by each rank at each start."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["tuner"]


@pytest.mark.parametrize(("left", "end"), [(0, 3), (1, 4), (2, 6), (4, 8)])
def test_a_training_goes_on_beyond_its_own_end_while_more_is_wanted(left: int, end: int) -> None:
    agent = FakeAgent()
    agent.left = left
    # It fires once; later the loop can end in every other call.
    trigger = Mock(side_effect=lambda call: call == 3, length=(3, "iteration"))
    until = Until(trigger, agent, lambda call: call % 2 == 0)
    assert [call for call in range(1, end + 1) if until(call)] == [end]
    assert until.length == (3, "iteration"), "which others may ask for"
