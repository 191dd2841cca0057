"""An agent, here started on this host by a launcher that is none: it becomes the agent.

And the connection to it: who does not know the secret gets nowhere.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.marked import PATIENCE_S, eventually, marked
from tuner.hosts import lock, procfs
from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.local_host import LocalHost
from tuner.hosts.process import MARKER
from tuner.hosts.remote import agent_start
from tuner.hosts.remote.agent import signs_of_life
from tuner.hosts.remote.dial import AGENT, HEAD, Channel, key_of
from tuner.hosts.remote.remote_hosts import HostLostError, Hosts, RemoteHost
from tuner.model.errors import BusyError, TunerError, UsageError

pytestmark = pytest.mark.system

ENVIRON = {**os.environ, "PMI_RANK": "0"}

Hold = Callable[[RemoteHost], None]
Left = Callable[..., "subprocess.Popen[bytes]"]


def directly(hosts: Sequence[str], program: Sequence[str]) -> Sequence[str]:
    """Run the program on the one host: this one."""
    return program


@contextmanager
def agent() -> Iterator[RemoteHost]:
    """An agent; afterwards its host is empty."""
    with agent_start.calls(["here"], directly, ENVIRON, stays=True) as channels:
        host = RemoteHost("here", channels["here"])
        yield host
        host.close()


@pytest.fixture
def marker() -> str:
    return os.urandom(16).hex()


@pytest.fixture
def hold(marker: str, tmp_path: Path) -> Hold:
    """Takes a host for the study ``study`` in ``/a.db``."""
    return lambda host: host.call("", LocalHost.hold, "study", "/a.db", marker, str(tmp_path))


@pytest.fixture
def left(marker: str) -> Iterator[Left]:
    """Starts processes that carry the marker of a launch, or another one."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(launch: int | None = 1) -> subprocess.Popen[bytes]:
        env = {**os.environ, MARKER: "other" if launch is None else f"{marker}.{launch}"}
        started.append(subprocess.Popen(["sleep", "100"], env=env, start_new_session=True))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def state(process: subprocess.Popen[bytes]) -> str:
    stat = procfs.stat(process.pid)
    assert stat is not None
    return stat.state


def signal_agent(number: int) -> None:
    """Send a signal to the agents below this process's supervisors."""
    stats = {stat.pid: stat for stat in procfs.processes()}
    for pid, stat in stats.items():
        is_agent = b"import base64,zlib;exec(" in procfs.read(f"/proc/{pid}/cmdline")
        if is_agent and stats[stat.parent].parent == os.getpid():
            os.kill(pid, number)


def test_what_an_agent_cannot_do_is_said_and_no_host_is_lost(hold: Hold, tmp_path: Path) -> None:
    with agent() as host:
        assert host.call("", LocalHost.describe, "here") == LocalHost().describe("here")
        hold(host)
        with pytest.raises(TunerError, match=r"here: /dev/shm/.*a: Is a directory"):
            host.call("", LocalHost.place, {"a/b": "text", "a": "text"})
        # A folder that is not of the launch is left alone.
        assert host.call("a", LaunchOnHost.share, str(tmp_path), tmp_path.stat().st_ino)
        with pytest.raises(TunerError, match=f"here: there is another folder {tmp_path}"):
            host.call("a", LaunchOnHost.share, str(tmp_path), 1)
        assert not host.call("a", LaunchOnHost.share, str(tmp_path / "new"), 1)
        assert not host.is_lost()
    assert tmp_path.exists()
    eventually(lambda: not (tmp_path / "new").exists())


def test_a_pause_and_a_sweep_are_for_the_launch_alone(marker: str, left: Left, hold: Hold) -> None:
    bystander = left(None)
    with agent() as host:
        hold(host)
        one, other, third = left(1), left(1), left(12)
        for _ in range(2):
            host.call(f"{marker}.1", LaunchOnHost.pause)
            host.call(f"{marker}.1", LaunchOnHost.pause)  # harmless
            assert (state(one), state(other)) == ("T", "T")
            assert "T" not in {state(third), state(bystander)}
            host.call(f"{marker}.1", LaunchOnHost.resume)
            assert "T" not in {state(one), state(other)}
        host.call(f"{marker}.1", LaunchOnHost.pause)
        assert host.call(f"{marker}.1", LaunchOnHost.sweep) == 2
        assert (one.wait(), other.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert host.call(f"{marker}.1", LaunchOnHost.sweep) == 0
        assert third.poll() is None
    assert third.wait() == -signal.SIGKILL, "with the study"
    assert bystander.poll() is None


@pytest.mark.parametrize(
    ("end", "is_paused"),
    [("terminated", False), ("left alone", True), ("killed", False), ("killed", True)],
)
def test_however_an_agent_ends_nothing_is_left_and_the_host_is_free(
    marker: str, left: Left, hold: Hold, end: str, is_paused: bool
) -> None:
    with agent() as host:
        hold(host)
        one = left()
        if is_paused:
            host.call(f"{marker}.1", LaunchOnHost.pause)
        if end != "left alone":
            signal_agent(signal.SIGKILL if end == "killed" else signal.SIGTERM)
            eventually(host.is_lost)
            with pytest.raises(HostLostError, match="the host here is lost: its agent has ended"):
                host.call(f"{marker}.1", LaunchOnHost.sweep)
        if end == "killed":
            assert state(one) in ("T" if is_paused else "S")
            with agent() as third:  # the next one ends what is left
                hold(third)
                assert one.wait() == -signal.SIGKILL
    one.wait()
    assert marked(marker) == []
    if end != "killed":
        with agent() as third:
            lock.retry_if_busy(lambda: hold(third), most_s=PATIENCE_S)


def test_a_stopped_agent_is_lost_and_ended_by_the_next_one_of_its_study(
    marker: str, left: Left, hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent() as host:
        hold(host)
        one = left()
        signal_agent(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr("tuner.hosts.remote.remote_hosts.SILENT_S", 0.1)
            with pytest.raises(HostLostError, match="the host here is lost: its agent does not an"):
                host.call(f"{marker}.1", LaunchOnHost.sweep)
        assert not host.is_cut_off, "another agent may be had there"
        with agent() as second:
            with pytest.raises(BusyError, match=r"study study\) already, which is stopped"):
                second.call("", LocalHost.hold, "study", "/other.db", marker, str(tmp_path))
            assert one.poll() is None
            hold(second)
            assert one.wait() == -signal.SIGKILL


# --- from the launcher to the connection --------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "noise\nssh: connect to host h21 port 22: No route to host",
            "no answer from h21: ssh: connect to host h21 port 22: No",
        ),
        ("mpirun: no", "no answer from h1, h2, h21: mpirun: no"),
    ],
)
def test_a_launcher_that_starts_nothing_is_quoted_and_hosts_named(printed: str, said: str) -> None:
    argv = ("sh", "-c", 'printf "%s\\n" "$1" >&2; exit 255', "sh", printed)
    with (
        pytest.raises(TunerError) as caught,
        agent_start.calls(["h1", "h2", "h21"], lambda *_: argv, ENVIRON),
    ):
        pass
    assert re.match(said, caught.value.message), caught.value.message


def test_a_host_with_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version", "2.7.18 (default)")
    with pytest.raises(UsageError, match=r"^here has Python 3\.\S+, this host 2\.7\.18"):
        Hosts(["here"], directly, ENVIRON)


def test_a_caller_without_the_secret_is_not_listened_to() -> None:
    def with_impostor(hosts: Sequence[str], program: Sequence[str]) -> Sequence[str]:
        port = next(int(word) for word in program if word.isdecimal())
        for hello in (b"", b"x" * 40):
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.sendall(hello)
        return program

    with agent_start.calls(["here"], with_impostor, ENVIRON) as channels:
        description = RemoteHost("here", channels["here"]).call("", LocalHost.describe, "here")
        assert description.machine.hostname == socket.gethostname()


KEY = key_of("secret", b"a" * 32, b"h" * 32)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with one, other:
        yield one, other


@pytest.mark.parametrize(
    "case", ["changed", "repeated", "left out", "sent back", "another key", "too long", "closed"]
)
def test_what_is_not_the_next_message_of_the_other_end_is_refused(
    ends: tuple[socket.socket, socket.socket], case: str
) -> None:
    sender = Channel(ends[0], KEY, HEAD)
    packets = []
    for message in (b"first", b"other"):
        sender.send(message)
        packets.append(ends[1].recv(1 << 16))
    first, second = packets
    key = key_of("guessed", b"a" * 32, b"h" * 32) if case == "another key" else KEY
    victim = Channel(ends[1], key, HEAD if case == "sent back" else AGENT)
    sent = {"changed": first[:-1] + b"T", "repeated": first + first, "left out": second}
    ends[0].sendall(b"\xff" * 4 if case == "too long" else sent.get(case, first))
    if case == "closed":
        ends[0].close()
    with pytest.raises(OSError, match=r"without the secret|too long|closed"):
        for _ in range(2):
            victim.receive(5.0)


def test_an_agent_that_takes_long_to_answer_is_not_lost(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.hosts.remote.remote_hosts.SILENT_S", 0.2)
    monkeypatch.setattr("tuner.hosts.remote.agent.SIGN_OF_LIFE_S", 0.01)
    host, slow = RemoteHost("h2", Channel(ends[0], KEY, HEAD)), Channel(ends[1], KEY, AGENT)

    def answer() -> None:
        slow.receive(5.0)
        with signs_of_life(slow):
            time.sleep(0.5)
        slow.send(b'{"value": 3}')

    thread = threading.Thread(target=answer)
    thread.start()
    assert host.call("study.1", LaunchOnHost.sweep) == 3
    thread.join()
