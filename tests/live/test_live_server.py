"""The tool's end of the socket: what it takes, and what it hangs up on."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.live import server as servers
from tuner.live.server import Hello, JobServer, Message, Steps, Switched

HELLO = {"type": "hello", "protocol": 2, "ranks": 2, "pid": 7, "hook": "torch", "iteration": 3}
LINE = json.dumps({**HELLO, "can": {"omp_threads": 2, "prefetch": None}}).encode() + b"\n"
STEPS = b'{"type":"steps","first":4,"s":[0.5,0.25],"marks":[5]}\n'

Peer = Callable[[], socket.socket]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JobServer]:
    found = JobServer(tmp_path)
    yield found
    found.close()


@pytest.fixture
def peer(server: JobServer) -> Iterator[Peer]:
    peers = []

    def connect() -> socket.socket:
        peers.append(socket.socket(socket.AF_UNIX))
        peers[-1].connect(str(server.path))
        return peers[-1]

    yield connect
    for each in peers:
        each.close()


def heard(server: JobServer, wanted: int = 1) -> list[Message]:
    found: list[Message] = []
    for _ in range(20):
        found += server.receive(0.05)
        if len(found) >= wanted or server.problem:
            break
    return found


def test_a_job_says_hello_and_what_it_does(server: JobServer, peer: Peer) -> None:
    job = peer()
    assert not server.listens()
    job.sendall(LINE + STEPS[:20])
    (hello,) = heard(server)
    assert hello == Hello(2, 2, "torch", {"omp_threads": 2, "prefetch": None})
    assert server.hello == hello and server.listens()
    job.sendall(STEPS[20:] + b'{"type":"weather"}\n')
    assert heard(server) == [Steps(4, (0.5, 0.25), frozenset({5}))]
    server.send(servers.order(1, {"omp_threads": 4, "prefetch": None}))
    order = {"type": "switch", "number": 1, "values": {"omp_threads": 4, "prefetch": None}}
    assert json.loads(job.recv(999)) == order


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (STEPS, "its first line is no hello"),
        (b'{"type":"weather"}\n', "its first line is no hello"),
        (LINE + LINE, "a second hello"),
        (b"what?\n", "no JSON object"),
        (b"\xff\xfe\n", "no JSON object"),
        (b"[" * 50_000 + b"\n", "no JSON object"),
        (b"[1]\n", "no JSON object"),
        (LINE.replace(b'"protocol": 2', b'"protocol": 1'), "it sent protocol 1"),
        (LINE.replace(b'"protocol": 2', b'"protocol": true'), "it sent protocol True"),
        (LINE.replace(b'"ranks": 2', b'"ranks": -2'), "it sent ranks -2"),
        (LINE + STEPS.replace(b"0.25", b"-1"), "it sent s -1"),
        (LINE + STEPS.replace(b"0.25", b"NaN"), "it sent s nan"),
        (LINE + STEPS.replace(b"0.25", b"9" * 500), "it sent s "),
        (LINE + STEPS.replace(b"[5]", b'["5"]'), "it sent marks '5'"),
        (LINE + b"[" * servers.MOST_BYTES, "a line of more than 64 KiB"),
    ],
)
def test_what_breaks_the_protocol_is_hung_up_on(
    server: JobServer, peer: Peer, sent: bytes, said: str
) -> None:
    job = peer()
    job.sendall(sent)
    heard(server, 99)
    assert said in server.problem
    assert not server.listens() and not server.is_open
    server.send(servers.order(1, {}))  # nobody is there
    with pytest.raises(OSError):
        while job.recv(999):
            pass
        raise ConnectionResetError


def test_nobody_else_is_let_in_and_an_end_is_noticed(server: JobServer, peer: Peer) -> None:
    first = peer()
    server.receive(0.05)
    with pytest.raises(ConnectionRefusedError):
        peer()
    first.sendall(LINE)
    heard(server)
    assert not server.path.exists(), "all ranks have met: a tool that is killed leaves none"
    first.close()
    heard(server, 2)
    assert server.problem == "it closed the connection" and server.hello is not None


def test_the_socket_is_its_owners_and_goes_again(tmp_path: Path) -> None:
    (tmp_path / servers.NAME).write_text("left from before")
    found = JobServer(tmp_path)
    try:
        mode = found.path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    finally:
        found.close()
    assert not found.path.exists()
    found.close()


def test_a_folder_may_have_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 200)
    folder.mkdir()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    JobServer(folder).close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    none = JobServer(tmp_path / "missing")
    assert "no socket can be made in" in none.problem and none.receive(0.0) == []
    none.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_what_the_ranks_read_back() -> None:
    rank = {
        "rank": 1,
        "pid": 9,
        "blas_threads": 2,
        "opencv_threads": None,
        "pools": [["/venv/numpy.libs/libopenblas.so", 2]],
        "affinity": [0, 1],
        "values": {"omp_threads": 2, "odd": [1]},
        "errors": {"prefetch": "no\nsuch"},
        "allocator": "glibc",
    }
    line = {"type": "switched", "number": 4, "iteration": 9, "took_s": 0.1, "ranks": [rank]}
    found = servers.parse(json.dumps(line).encode())
    assert isinstance(found, Switched) and (found.number, found.iteration) == (4, 9)
    (seen,) = found.ranks
    assert seen.pools == (("numpy.libs/libopenblas.so", 2),)
    assert seen.values == {"odd": None, "omp_threads": 2}
    assert (seen.errors, seen.allocator) == ({"prefetch": "no?such"}, "glibc")
    for name, value in {"rank": None, "pools": [["x"]], "affinity": "0", "values": 3}.items():
        with pytest.raises(servers.WireError, match="it sent"):
            servers.parse(json.dumps({**line, "ranks": [{**rank, name: value}]}).encode())
