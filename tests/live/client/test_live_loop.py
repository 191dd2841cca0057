"""The three lines of a plain loop, and what they cost outside a study."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.live_agent import FakeAgent, install
from tuner import live

#: What `tuner.live` needs beside Python itself, loaded before the count.
IMPORT = """
import sys, typing, collections.abc, contextlib, functools, importlib
before = set(sys.modules)
from tuner import live
live.session, live.ChainerExtension, live.PpeExtension, live.torch_loader
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
    agent.wanted = 1
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


def test_a_passive_agent_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = install(monkeypatch, FakeAgent())
    assert live.session().active
    monkeypatch.setattr(sys.modules["tune_rank_live"], "agent", lambda: None)
    assert not live.session().active
    assert agent.steps == []


def test_it_imports_nothing_but_itself() -> None:
    """It is loaded into trainers, by each rank at each start."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["tuner"]
