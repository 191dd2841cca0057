"""A launch over hosts: who is told of its pauses, and what becomes of it without an agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tuner.hosts.process.running import Exit
from tuner.hosts.remote.hosts import HostLostError, Hosts
from tuner.hosts.remote.trial import TrialOnHosts

MARKER = "study.7"


class Launcher:
    """Runs until it is stopped."""

    pid, marker = 1, MARKER

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self._calls.append(f"launcher: {name}")

    def wait(self, _: float) -> Exit | None:
        return None

    def stop(self) -> Exit:
        self._calls.append("launcher: stop")
        return Exit(-15, 1.0, stopped=True, killed=0)


class Agent:
    """Notes what it is asked for and when it answers."""

    is_cut_off = False

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self._calls, self.lost = name, calls, False

    def ask(self, method: str, *arguments: object) -> None:
        if self.lost:
            raise self.error()
        assert arguments == (MARKER,)
        self._calls.append(f"{self.name}: {method}")

    def answer(self, method: str) -> int:
        self._calls.append(f"{self.name}: {method} done")
        return 0

    def is_lost(self) -> bool:
        return self.lost

    def error(self) -> HostLostError:
        return HostLostError(f"the host {self.name} is lost")


class TwoHosts(Hosts):
    """Two hosts with such agents; one that is lost gets another."""

    def __init__(self, calls: list[str]) -> None:
        self.name_here, self._calls = "", calls
        self.remote: dict[str, Any] = {name: Agent(name, calls) for name in ("h2", "h3")}

    def replace(self, lost: str, name: str) -> None:
        self.remote[name] = Agent(name, self._calls)


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def hosts(calls: list[str]) -> TwoHosts:
    return TwoHosts(calls)


@pytest.fixture
def launch(calls: list[str], hosts: TwoHosts, tmp_path: Path) -> TrialOnHosts:
    return TrialOnHosts(Launcher(calls), hosts, tmp_path)  # type: ignore[arg-type]


def at_once(method: str) -> Sequence[str]:
    return [
        *(f"{host}: {method}" for host in ("h2", "h3")),
        f"launcher: {method}",
        *(f"{host}: {method} done" for host in ("h2", "h3")),
    ]


def test_all_hosts_pause_and_resume_at_once(calls: list[str], launch: TrialOnHosts) -> None:
    launch.resume()  # it runs
    assert calls == []
    launch.pause()
    launch.pause()  # it is paused
    assert calls == at_once("pause")
    calls.clear()
    launch.resume()
    assert calls == at_once("resume")


def test_other_hosts_are_woken_before_a_paused_launch_is_ended(
    calls: list[str], launch: TrialOnHosts
) -> None:
    launch.pause()
    calls.clear()
    launch.stop()
    assert calls.index("h3: resume done") < calls.index("launcher: stop")
    assert calls.index("launcher: stop") < calls.index("h2: sweep")
    calls.clear()
    launch.pause()
    launch.resume()
    assert calls == [], "it has ended"


def test_each_of_two_launches_learns_that_an_agent_is_lost_that_the_first_has_replaced(
    calls: list[str], hosts: TwoHosts, launch: TrialOnHosts, tmp_path: Path
) -> None:
    other = TrialOnHosts(Launcher(calls), hosts, tmp_path)  # type: ignore[arg-type]
    assert launch.poll() is None and other.poll() is None
    other.pause()
    hosts.remote["h3"].lost = True
    for each in (launch, other):
        ended = each.poll()
        assert ended is not None and ended.lost_host == "the host h3 is lost"
    assert hosts.lost() == [], "there is another agent by then"
    third = TrialOnHosts(Launcher(calls), hosts, tmp_path)  # type: ignore[arg-type]
    assert third.poll() is None
