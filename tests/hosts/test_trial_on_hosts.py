"""A launch over hosts: who is told of its pauses, and what becomes of it if a host is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from tests.study_samples import SPEC
from tuner.hosts import process
from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.process import Exit
from tuner.hosts.remote import trial_on_hosts
from tuner.hosts.remote.hosts_observer import HostsObserver
from tuner.hosts.remote.remote_hosts import HostLostError, Hosts
from tuner.hosts.remote.trial_on_hosts import TrialOnHosts
from tuner.model import Launch

MARKER = "study.7"


class Agent:
    """Notes what it is asked for and when it answers."""

    is_cut_off = False

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self._calls, self.lost = name, calls, False

    def ask(self, launch: str, method: Callable[..., Any], *_: Any) -> Callable[[], Any]:
        if self.lost:
            raise self.error()
        assert launch == MARKER
        self._calls.append(f"{self.name}: {method.__name__}")

        def answer() -> Any:
            self._calls.append(f"{self.name}: {method.__name__} done")
            return {} if method is LaunchOnHost.changed else 0

        return answer

    def is_lost(self) -> bool:
        return self.lost

    def error(self) -> HostLostError:
        return HostLostError(f"the host {self.name} is lost")


class TwoHosts(Hosts):
    """Two hosts with such agents; one that is lost gets another."""

    def __init__(self, calls: list[str]) -> None:
        self.local_name, self._calls = "", calls
        self.remote: dict[str, Any] = {name: Agent(name, calls) for name in ("h2", "h3")}

    def replace(self, lost: str, name: str) -> None:
        self.remote[name] = Agent(name, self._calls)


def begin(hosts: TwoHosts, folder: Path, code: int | None = None) -> TrialOnHosts:
    """Begin a launch whose launcher has ended with a code, or runs until it is stopped."""

    def note(call: str) -> object:
        hosts._calls.append(call)
        return DEFAULT  # the mock's own value is returned

    launcher = Mock(pid=1, marker=MARKER)
    for name in ("pause", "resume", "stop"):
        getattr(launcher, name).side_effect = partial(note, f"launcher: {name}")
    launcher.wait.return_value = None if code is None else Exit(code, 1.0, stopped=False, killed=0)
    launcher.stop.return_value = Exit(-15, 1.0, stopped=True, killed=0)
    return TrialOnHosts(launcher, hosts, folder)


def test_all_hosts_pause_and_resume_at_once_and_before_the_launch_is_ended(tmp_path: Path) -> None:
    calls: list[str] = []
    launch = begin(TwoHosts(calls), tmp_path)

    def at_once(method: str) -> list[str]:
        told = [f"{host}: {method}" for host in ("h2", "h3")]
        return [*told, f"launcher: {method}", *(f"{call} done" for call in told)]

    launch.resume()  # it runs
    launch.pause()
    launch.pause()  # it is paused
    launch.resume()
    assert calls == [*at_once("pause"), *at_once("resume")]
    launch.pause()
    calls.clear()
    launch.stop()  # which wakes the launcher, also if its supervisor was stopped
    resume, sweep = (
        [call for call in at_once(method) if "launcher" not in call]
        for method in ("resume", "sweep")
    )
    assert calls == [*resume, "launcher: stop", *sweep]
    launch.pause()
    launch.resume()
    assert calls[-1] == sweep[-1], "it has ended"


def test_each_sample_notes_this_hosts_processes_which_may_hide_their_marker(tmp_path: Path) -> None:
    launch = Launch(("mpirun",), {process.MARKER: MARKER}, tmp_path, tmp_path, tmp_path)
    observer, looks = HostsObserver(TwoHosts([]), launch, SPEC), iter([()])
    observer.follow(lambda: next(looks))
    observer.sample()
    assert next(looks, None) is None


def test_both_launches_learn_of_a_lost_agent_that_the_first_has_replaced(tmp_path: Path) -> None:
    hosts = TwoHosts([])
    launches = [begin(hosts, tmp_path), begin(hosts, tmp_path)]
    assert [launch.poll() for launch in launches] == [None, None]
    launches[1].pause()
    hosts.remote["h3"].lost = True
    ends = [launch.poll() for launch in launches]
    assert [end.lost_host for end in ends if end] == ["the host h3 is lost"] * 2
    assert hosts.lost() == [], "there is another agent by then"
    assert begin(hosts, tmp_path).poll() is None


@pytest.mark.parametrize(
    ("code", "names", "lost"),
    [
        (0, "h2 h2=0 h3 h3=0", ""),
        (0, "", ""),  # Slurm: no ssh
        (0, "h2 h2=0 h3 h3=137", "h3"),  # its ssh was killed
        (0, "h2 h2=0 h3", "?"),  # the daemon of the MPI was: ssh waits for its ranks
        (0, "h2 h2=0 h3 h3=7", "h3"),
        (137, "h2 h2=0 h3 h3=137", "h3"),
        (255, "10.0.0.2 10.0.0.2=255", "10.0.0.2"),  # its sshd was, or it is not there
        (1, "h2 h3 h3=0", ""),  # a rank failed
        (255, "h2 h2=7 h3 h3=0", ""),  # so it did under MPICH
        (-9, "h2 h2=255 h3", ""),  # mpirun was killed, and the daemons then ended
        (None, "h2 h3 h3=255", "h3"),  # it goes on, and is stopped
    ],
)
def test_a_launch_that_its_ssh_has_not_survived_has_lost_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, names: str, lost: str
) -> None:
    for name in names.split():
        (tmp_path / name).touch()
    hosts = TwoHosts([])
    assert (begin(hosts, tmp_path, code).poll() is None) == (code is None), "it has a moment to end"
    if code is None:
        monkeypatch.setattr(trial_on_hosts, "GRACE_S", -1.0)
    end = begin(hosts, tmp_path, code).poll()
    assert end is not None and end.stopped == (code is None)
    said = {"": "", "?": "a host is lost: the launcher ended before its ssh to h3 did"}
    begins = said.get(lost, f"the host {lost} is lost: ssh to it ended with exit code ")
    assert end.lost_host.startswith(begins) and bool(end.lost_host) == bool(lost)
