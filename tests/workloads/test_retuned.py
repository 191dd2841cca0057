"""A trainer with and without the package that tunes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live_agent import FakeAgent, install
from workloads import retuned

WORKLOADS = Path(__file__).parents[2] / "workloads"

#: As where a trainer's own interpreter has no such package.
WITHOUT = f"""
import sys
sys.modules["tuner"] = None
sys.path.insert(0, {str(WORKLOADS)!r})
import retuned
session = retuned.session()
session.step()
loader = object()
retuned.chainer(None, None)
retuned.ppe(None)
print(session.more(), retuned.loader(loader, persistent_workers=True) is loader)
"""


def test_an_interpreter_without_the_package_runs_them_as_they_are() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]


def test_outside_a_study_a_loader_is_the_loader() -> None:
    loader = object()
    assert retuned.loader(loader) is loader
    assert not retuned.session().more()


def test_in_a_study_the_session_is_the_studys(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = install(monkeypatch, FakeAgent())
    agent.wanted = 1
    session = retuned.session()
    session.step()
    assert (session.more(), session.more(), agent.steps) == (True, False, [False])
