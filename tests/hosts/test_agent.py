"""An agent, here started on this host by a launcher that is none: it becomes the agent."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.marked import eventually, marked
from tuner.hosts import procfs
from tuner.hosts.host import LocalHost
from tuner.hosts.process import MARKER
from tuner.hosts.remote import start
from tuner.hosts.remote.hosts import HostLostError, RemoteHost
from tuner.hosts.survey import ProgramOutput
from tuner.model.errors import BusyError, TunerError

pytestmark = pytest.mark.system

ENVIRON = {**os.environ, "PMI_RANK": "0"}


def directly(hosts: Sequence[str], program: Sequence[str]) -> Sequence[str]:
    """Run the program on the one host: this one."""
    return program


@contextmanager
def agent() -> Iterator[RemoteHost]:
    """An agent; afterwards its host is empty."""
    with start.calls(["here"], directly, ENVIRON, stays=True) as channels:
        host = RemoteHost("here", channels["here"])
        yield host
        host.close()


@pytest.fixture
def marker() -> str:
    return os.urandom(16).hex()


@pytest.fixture
def left(marker: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that carry the marker of a launch."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(launch: int = 1) -> subprocess.Popen[bytes]:
        env = {**os.environ, MARKER: f"{marker}.{launch}"}
        started.append(subprocess.Popen(["sleep", "100"], env=env, start_new_session=True))
        return started[-1]

    yield start_one
    for each in started:
        each.kill()
        each.wait()


def test_an_agent_tells_what_the_host_itself_would_tell() -> None:
    with agent() as host:
        assert host.call("describe") == LocalHost().describe()


def test_an_agent_runs_programs_and_measures_its_links_for_the_doctor() -> None:
    with agent() as host:
        seen = host.call("survey", {"echo": ("echo", "said"), "none": ("/no/program",)}, {})
        assert seen.said == {
            "echo": ProgramOutput("said\n", ""),
            "none": ProgramOutput("", "No such file or directory"),
        }
        link = LocalHost().measure("127.0.0.1", host.call("answer"))
        assert link.bytes_per_s > 0 and link.latency_s > 0 and not link.fault
        assert host.call("measure", "127.0.0.1", 1).fault == "Connection refused"


def test_a_folder_that_is_not_of_the_launch_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with agent() as host:
        assert host.call("share", "a", str(tmp_path), tmp_path.stat().st_ino)
        with pytest.raises(TunerError, match=f"here: there is another folder {tmp_path}"):
            host.call("share", "a", str(tmp_path), 1)
        assert not host.call("share", "a", str(tmp_path / "new"), 1)
    assert (tmp_path / "kept").exists()
    eventually(lambda: not (tmp_path / "new").exists())


def test_a_file_that_cannot_be_written_is_said_and_the_host_is_not_lost(
    marker: str, tmp_path: Path
) -> None:
    with agent() as host:
        host.call("hold", "a", "", marker, str(tmp_path))
        with pytest.raises(TunerError, match=r"here: /dev/shm/.*a: Is a directory"):
            host.call("place", {"a/b": "text", "a": "text"})
        assert host.call("describe") and not host.is_lost()


def test_an_agent_reads_gpus_without_site_packages(marker: str, tmp_path: Path) -> None:
    with agent() as host:
        host.call("hold", "a", "", marker, str(tmp_path))
        host.call("watch", "a", 1, True, {})
        gaps = host.call("view", "a").telemetry.gaps
        of_gpus = [gap for gap in gaps if gap.startswith("GPUs are not")]
        assert all("NVML says" in gap for gap in of_gpus), of_gpus


def test_a_sweep_ends_what_is_of_the_launch_and_nothing_else(
    marker: str, left: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    bystander = subprocess.Popen(["sleep", "100"])
    with agent() as host:
        host.call("hold", "study", "", marker, str(tmp_path))
        one, other, third = left(12), left(12), left(1)
        assert host.call("sweep", f"{marker}.12") == 2
        assert (one.wait(), other.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert host.call("sweep", f"{marker}.12") == 0
        assert third.poll() is None
    assert third.wait() == -signal.SIGKILL, "with the study"
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_an_agent_that_is_left_alone_sweeps_and_gives_the_host_back(
    marker: str, left: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with agent() as host:
        host.call("hold", "study", "/a.db", marker, str(tmp_path))
        with agent() as second, pytest.raises(BusyError, match=r"measuring for .* \(study study\)"):
            second.call("hold", "other", "", marker, str(tmp_path))
        one = left()
    one.wait()
    assert marked(marker) == []

    with agent() as third:
        eventually(lambda: _holds(third, tmp_path))


def _holds(host: RemoteHost, folder: Path) -> bool:
    try:
        host.call("hold", "other", "", "f" * 32, str(folder))
    except BusyError:
        return False
    return True


def test_what_a_killed_agent_has_left_is_ended_by_the_next(
    marker: str, left: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with agent() as host:
        host.call("hold", "study", "", marker, str(tmp_path))
        one = left()
        signal_agent(signal.SIGKILL)
        eventually(host.is_lost)
        with pytest.raises(HostLostError, match="the host here is lost: its agent has ended"):
            host.call("sweep", f"{marker}.1")
    with agent() as host:
        host.call("hold", "study", "", marker, str(tmp_path))
        assert one.wait() == -signal.SIGKILL


def test_a_stopped_agent_is_lost_and_ended_by_the_next_one_of_its_study(
    marker: str,
    left: Callable[..., subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with agent() as host:
        host.call("hold", "study", "/a.db", marker, str(tmp_path))
        one = left()
        signal_agent(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr("tuner.hosts.remote.hosts.SILENT_S", 0.1)
            with pytest.raises(HostLostError, match="the host here is lost: its agent does not an"):
                host.call("sweep", f"{marker}.1")
        assert not host.is_cut_off, "another agent may be had there"
        with agent() as second:
            with pytest.raises(BusyError, match=r"study study\) already, which is stopped"):
                second.call("hold", "study", "/other.db", marker, str(tmp_path))
            assert one.poll() is None
            second.call("hold", "study", "/a.db", marker, str(tmp_path))
            assert one.wait() == -signal.SIGKILL


def test_a_pause_stops_what_is_of_the_launch_and_nothing_else(
    marker: str, left: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    bystander = subprocess.Popen(["sleep", "100"])
    with agent() as host:
        host.call("hold", "study", "", marker, str(tmp_path))
        one, other, third = left(1), left(1), left(12)
        for _ in range(2):
            host.call("pause", f"{marker}.1")
            host.call("pause", f"{marker}.1")  # harmless
            assert (state(one), state(other)) == ("T", "T")
            assert "T" not in {state(third), state(bystander)}
            host.call("resume", f"{marker}.1")
            assert "T" not in {state(one), state(other)}
        host.call("resume", f"{marker}.12")  # harmless
        host.call("pause", f"{marker}.1")
        assert host.call("sweep", f"{marker}.1") == 2
        assert third.poll() is None
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@pytest.mark.parametrize("end", ["terminated", "left alone", "killed"])
def test_an_agent_that_ends_in_a_pause_leaves_nothing_stopped(
    marker: str, left: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, end: str
) -> None:
    with agent() as host:
        host.call("hold", "study", "", marker, str(tmp_path))
        one = left()
        host.call("pause", f"{marker}.1")
        if end != "left alone":
            signal_agent(signal.SIGKILL if end == "killed" else signal.SIGTERM)
            eventually(host.is_lost)
        if end == "killed":
            assert state(one) == "T"
            with agent() as second:  # as a launch has it started, once it finds the first one lost
                second.call("hold", "study", "", marker, str(tmp_path))
                assert one.wait() == -signal.SIGKILL
    assert one.wait() == -signal.SIGKILL


def state(process: subprocess.Popen[bytes]) -> str:
    found = procfs.stat(process.pid)
    assert found is not None
    return found.state


def test_an_agent_that_is_terminated_sweeps(
    marker: str, left: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with agent() as host:
        host.call("hold", "study", "", marker, str(tmp_path))
        one = left()
        signal_agent(signal.SIGTERM)
        one.wait()
        eventually(host.is_lost)


def signal_agent(number: int) -> None:
    """Send a signal to the agents below this process's supervisors."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            above = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if any(word.startswith(b"import base64,zlib;exec(") for word in words):
            found += [int(path.name)] if above == os.getpid() else []
    assert found
    for pid in found:
        os.kill(pid, number)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "noise\nssh: connect to host h21 port 22: No route to host",
            "no answer from h21: ssh: connect to host h21 port 22: No",
        ),
        (
            "mpirun was unable to launch the specified application as it could not access\n"
            "or execute an executable:\n\nExecutable: /py\nNode: h21\n\nwhile attempting to start",
            "no answer from h21: Executable: /py; Node: h21$",
        ),
        (
            "[proxy:1@h21] HYDU_create_process (launch.c:73): execvp error on file /py (No such)",
            r"no answer from h21: \[proxy:1@h21\] HYDU_create_process .* on file /py",
        ),
        ("mpirun: no", "no answer from h1, h2, h21: mpirun: no"),
    ],
)
def test_a_launcher_that_starts_nothing_is_quoted_and_the_host_named(
    printed: str, said: str
) -> None:
    def fails(hosts: Sequence[str], program: Sequence[str]) -> Sequence[str]:
        return ("sh", "-c", 'printf "%s\\n" "$1" >&2; exit 255', "sh", printed)

    with (
        pytest.raises(TunerError) as caught,
        start.calls(["h1", "h2", "h21"], fails, ENVIRON),
    ):
        pass
    assert re.match(said, caught.value.message), caught.value.message


def test_a_caller_without_the_secret_is_not_listened_to() -> None:
    def with_impostor(hosts: Sequence[str], program: Sequence[str]) -> Sequence[str]:
        port = next(int(word) for word in program if word.isdecimal())
        for hello in (b"", b"x" * 40):
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.sendall(hello)
        return program

    with start.calls(["here"], with_impostor, ENVIRON) as channels:
        assert (
            RemoteHost("here", channels["here"]).call("describe").hostname == socket.gethostname()
        )
