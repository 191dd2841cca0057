"""The connection between the head and an agent: who does not know the secret gets nowhere."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tuner.hosts.remote.agent import signs_of_life
from tuner.hosts.remote.dial import AGENT, HEAD, Channel, key_of
from tuner.hosts.remote.hosts import RemoteHost

KEY = key_of("secret", b"a" * 32, b"h" * 32)

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with one, other:
        yield one, other


def test_messages_come_whole_and_in_order(ends: Ends) -> None:
    head, agent = Channel(ends[0], KEY, HEAD), Channel(ends[1], KEY, AGENT)
    for text in (b"", b"one", b"2" * 100_000):
        head.send(text)
        assert agent.receive(5.0) == text
        agent.send(text)
        assert head.receive(5.0) == text


def test_a_message_of_somebody_else_is_refused(ends: Ends) -> None:
    other = key_of("guessed", b"a" * 32, b"h" * 32)
    Channel(ends[0], other, HEAD).send(b"run this")
    with pytest.raises(OSError, match="without the secret"):
        Channel(ends[1], KEY, AGENT).receive(5.0)


def test_the_key_depends_on_both_nonces() -> None:
    keys = {key_of("s", a, h) for a in (b"1" * 32, b"2" * 32) for h in (b"3" * 32, b"4" * 32)}
    assert len(keys) == 4


@pytest.mark.parametrize("case", ["changed", "repeated", "left out", "sent back"])
def test_a_message_that_was_tampered_with_is_refused(ends: Ends, case: str) -> None:
    """Read from one connection, and put into another."""
    head = Channel(ends[0], KEY, HEAD)
    head.send(b"first")
    first = ends[1].recv(1 << 16)
    head.send(b"other")
    second = ends[1].recv(1 << 16)
    sent = {
        "changed": first[:-1] + b"T",
        "repeated": first + first,
        "left out": second,
        "sent back": first,
    }[case]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        attacker = socket.create_connection(listener.getsockname())
        victim = Channel(listener.accept()[0], KEY, HEAD if case == "sent back" else AGENT)
    attacker.sendall(sent)
    with pytest.raises(OSError, match="without the secret"):
        for _ in range(2):
            victim.receive(5.0)
    attacker.close()
    victim.close()


def test_a_closed_connection_and_silence_are_errors(ends: Ends) -> None:
    agent = Channel(ends[1], KEY, AGENT)
    with pytest.raises(TimeoutError):
        agent.receive(0.01)
    ends[0].sendall(b"\xff" * 4)
    with pytest.raises(OSError, match="too long"):
        agent.receive(5.0)
    ends[0].close()
    with pytest.raises(OSError, match="closed"):
        agent.receive(5.0)


def test_an_agent_that_takes_long_to_answer_is_not_lost(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.hosts.remote.hosts.SILENT_S", 0.2)
    monkeypatch.setattr("tuner.hosts.remote.agent.SIGN_OF_LIFE_S", 0.01)
    host, agent = RemoteHost("h2", Channel(ends[0], KEY, HEAD)), Channel(ends[1], KEY, AGENT)

    def answer() -> None:
        agent.receive(5.0)
        with signs_of_life(agent):
            time.sleep(0.5)
        agent.send(b'{"value": 3}')

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert host.call("sweep") == 3
    finally:
        thread.join()
