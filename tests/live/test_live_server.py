"""The tool's end of the connections: whom it lets in, what it takes, and what it hangs up on."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.scripted import launch
from tests.live_bench import probe_module
from tuner.hosts.probe import live_file
from tuner.live import server as servers
from tuner.live.jobs import publish_here
from tuner.live.server import Hello, JobServer, Message, RankState, Steps, Switched

HELLO = {"type": "hello", "ranks": 2, "hook": "torch"}
STEPS = b'{"type":"steps","first":4,"s":[0.5,0.25],"marks":[5]}\n'

to_tool = probe_module("rank_live_line").to_tool

Come = Callable[..., Any]


@pytest.fixture
def told() -> list[str]:
    """What the ranks are told, the latest last."""
    return []


@pytest.fixture
def server(told: list[str]) -> Iterator[JobServer]:
    found = JobServer(2, told.append)
    yield found
    found.close()


@pytest.fixture
def come(server: JobServer, told: list[str]) -> Iterator[Come]:
    """Connects a rank; an Exception if it is not taken."""
    lines: list[Any] = []
    place = json.loads(told[0])

    def connect(rank: int, /, *knobs: str, **more: Any) -> Any:
        told = {**HELLO, "rank": rank, "can": dict.fromkeys(knobs, rank), **more}
        found: list[Any] = []

        def dial() -> None:
            try:
                found.append(to_tool({**place, **more.get("place", {})}, told))
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=dial)
        thread.start()
        while thread.is_alive():
            server.receive(0.01)
        if isinstance(found[0], Exception):
            raise found[0]
        lines.append(found[0])
        return found[0]

    yield connect
    for each in lines:
        each.close()


def heard(server: JobServer, wanted: int = 1) -> list[Message]:
    found: list[Message] = []
    for _ in range(20):
        found += server.receive(0.05)
        if len(found) >= wanted or server.problem:
            break
    return found


def test_a_job_says_hello_once_all_ranks_have_come(
    server: JobServer, come: Come, told: list[str]
) -> None:
    come(1, "omp_threads", "prefetch")
    assert server.hello is None and not server.listens() and server.come == 1
    come(0, "omp_threads", "workers")
    assert server.listens()
    assert isinstance(server.hello, Hello)
    assert (server.hello.rank, server.hello.can) == (0, {"omp_threads": 0}), "what all can"
    assert told[1:] == [""], "nobody else needs to be told"


def test_all_are_switched_at_one_iteration(server: JobServer, come: Come) -> None:
    lines = [come(0), come(1)]
    server.switch({"omp_threads": 4, "prefetch": None})
    for line, iteration in zip(lines, (7, 9), strict=True):
        assert line.receive() == {"type": "stop"}
        line.send({"type": "stopped", "iteration": iteration})
    assert heard(server) == []
    values = {"omp_threads": 4, "prefetch": None}
    for rank, line in reversed([*enumerate(lines)]):
        assert line.receive() == {"type": "at", "iteration": 10, "values": values}
        line.send({"type": "state", "rank": rank, "blas_threads": rank})
    assert heard(server) == [Switched(10, (RankState(0, 0), RankState(1, 1)))]


def test_only_rank_0_tells_of_the_iterations(server: JobServer, come: Come) -> None:
    lines = [come(0), come(1)]
    for line in lines:
        line._socket.sendall(STEPS[:20])
        line._socket.sendall(STEPS[20:])
        line.send({"type": "end", "iterations": 5})
        line.close()
    assert heard(server, 99) == [Steps(4, (0.5, 0.25), frozenset({5}))]
    assert (server.iterations, server.problem, server.is_open) == (5, "", False)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b'{"type":"weather"}\n', "no message"),
        (b"what?\n", "no message"),
        (b"\xff\xfe\n", "no message"),
        (b"[" * 50_000 + b"\n", "no message"),
        (b"[1]\n", "no message"),
        (json.dumps({**HELLO, "rank": 1, "can": {}}).encode() + b"\n", "a second hello"),
        (STEPS.replace(b"0.25", b"-1"), "it sent s -1"),
        (STEPS.replace(b"0.25", b"NaN"), "it sent s nan"),
        (STEPS.replace(b"0.25", b"9" * 500), "it sent s "),
        (STEPS.replace(b"[5]", b'["5"]'), "it sent marks '5'"),
        (b"[" * servers.MOST_BYTES, "a line of more than 64 KiB"),
        (None, "rank 1 closed its connection"),
    ],
)
def test_what_breaks_the_protocol_ends_it_for_all(
    server: JobServer, come: Come, sent: bytes | None, said: str
) -> None:
    lines = [come(0), come(1)]
    if sent is None:
        lines[1].close()
    else:
        lines[1]._socket.sendall(sent)
    heard(server, 99)
    assert said in server.problem
    assert not server.listens() and not server.is_open
    server.switch({})  # nobody is there
    with pytest.raises(ConnectionError):
        lines[0].receive()


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ({"ranks": 3}, "rank 0 of 3 came to a job of 2"),
        ({"rank": 2}, "rank 2 of 2 came to a job of 2"),
    ],
)
def test_ranks_of_another_job_end_it(
    server: JobServer, come: Come, hello: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConnectionError):
        come(0, **hello)
    assert server.problem == said


@pytest.mark.parametrize(
    "hello", [{"place": {"secret": "another"}}, {"ranks": -2}, {"type": "steps"}]
)
def test_strangers_are_not_let_in_and_end_nothing(
    server: JobServer, come: Come, hello: dict[str, Any]
) -> None:
    with pytest.raises(ConnectionError):
        come(0, **hello)
    assert (server.problem, server.come) == ("", 0)
    come(0)
    come(1)
    assert server.listens()


def test_the_file_is_its_owners_and_goes_again(tmp_path: Path) -> None:
    path = live_file(tmp_path)
    path.write_text("left from before")
    made = launch(tmp_path.parent, 1)
    made = replace(made, folder=tmp_path)
    publish_here(made, "now")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "now"
    for _ in range(2):
        publish_here(made, "")
        assert not path.exists()


def test_it_leaves_no_descriptor_open_and_can_be_without_a_place(told: list[str]) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    found = JobServer(2, told.append)
    found.close()
    found.close()

    def full(_: str) -> None:
        raise OSError("the disk is full")

    none = JobServer(2, full)
    assert "the disk is full" in none.problem and none.receive(0.0) == []
    with suppress(OSError):
        none.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_it_listens_on_this_host_alone_unless_ranks_are_on_others(told: list[str]) -> None:
    for addresses in ((), ("127.0.0.2",)):
        server = JobServer(2, told.append, addresses)
        port = json.loads(told[-1])["port"]
        with socket.socket() as caller:
            assert (caller.connect_ex(("127.0.0.2", port)) == 0) is bool(addresses)
        server.close()


def test_what_the_ranks_read_back() -> None:
    state = {
        "type": "state",
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
    seen = servers.parse(json.dumps(state).encode())
    assert isinstance(seen, RankState)
    assert seen.pools == (("numpy.libs/libopenblas.so", 2),)
    assert seen.values == {"odd": None, "omp_threads": 2}
    assert (seen.errors, seen.allocator) == ({"prefetch": "no?such"}, "glibc")
    for name, value in {"rank": None, "pools": [["x"]], "affinity": "0", "values": 3}.items():
        with pytest.raises(servers.WireError, match="it sent"):
            servers.parse(json.dumps({**state, name: value}).encode())
