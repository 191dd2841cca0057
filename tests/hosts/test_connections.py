"""Whether a launch over hosts ran to its end, by how each ssh of its launcher has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from tuner.hosts.process.running import Exit
from tuner.hosts.remote import trial
from tuner.hosts.remote.connections import connections_folder
from tuner.hosts.remote.trial import TrialOnHosts


class Launcher:
    """Has ended with this code, or runs until it is stopped."""

    pid, marker = 1, "study.1"

    def __init__(self, code: int | None) -> None:
        self._code = code

    def wait(self, _: float) -> Exit | None:
        return None if self._code is None else Exit(self._code, 1.0, stopped=False, killed=0)

    def stop(self) -> Exit:
        return Exit(-15, 1.0, stopped=True, killed=0)


class Hosts:
    """Have all their agents, and nothing to sweep."""

    remote: ClassVar[dict[str, Any]] = {}

    def lost(self) -> list[Any]:
        return []

    def call_all(self, *_: object) -> dict[str, int]:
        return {}


def ended(folder: Path, code: int | None, *names: str) -> Exit | None:
    """The end of a launch whose ssh have left files of these names."""
    connections = connections_folder(folder)
    connections.mkdir()
    for name in names:
        (connections / name).touch()
    launch: Any = TrialOnHosts(Launcher(code), Hosts(), connections)  # type: ignore[arg-type]
    found: Exit | None = launch.wait(0.0)
    return found


@pytest.mark.parametrize(
    ("code", "names", "lost"),
    [
        (0, ("h2", "h2=0", "h3", "h3=0"), ""),
        (0, (), ""),  # Slurm: no ssh
        (0, ("h2", "h2=0", "h3", "h3=137"), "h3"),  # its ssh was killed
        (0, ("h2", "h2=0", "h3"), "?"),  # the daemon of the MPI was: ssh waits for its ranks
        (0, ("h2", "h2=0", "h3", "h3=7"), "h3"),
        (137, ("h2", "h2=0", "h3", "h3=137"), "h3"),
        (255, ("10.0.0.2", "10.0.0.2=255"), "10.0.0.2"),  # its sshd was, or it is not there
        (1, ("h2", "h3", "h3=0"), ""),  # a rank failed
        (255, ("h2", "h2=7", "h3", "h3=0"), ""),  # so it did under MPICH
        (-9, ("h2", "h2=255", "h3"), ""),  # mpirun was killed, and the daemons then ended
    ],
)
def test_a_launch_that_its_ssh_has_not_survived_has_lost_a_host(
    tmp_path: Path, code: int, names: tuple[str, ...], lost: str
) -> None:
    exit_ = ended(tmp_path, code, *names)
    assert exit_ is not None
    said = {"": "", "?": "a host is lost: the launcher ended before its ssh to h3 did"}
    begins = said.get(lost, f"the host {lost} is lost: ssh to it ended with exit code ")
    assert exit_.lost_host.startswith(begins) and bool(exit_.lost_host) == bool(lost)


def test_a_launcher_that_goes_on_without_its_ssh_is_stopped_after_a_grace_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "GRACE_S", -1.0)
    exit_ = ended(tmp_path, None, "h2", "h3", "h3=255")
    assert exit_ is not None and exit_.stopped
    assert exit_.lost_host == "the host h3 is lost: ssh to it ended with exit code 255"
    monkeypatch.setattr(trial, "GRACE_S", 1000.0)
    (tmp_path / "other").mkdir()
    assert ended(tmp_path / "other", None, "h2", "h3", "h3=255") is None
