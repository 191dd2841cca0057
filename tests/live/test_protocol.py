"""The live protocol where one side breaks it, or is a stranger.

On the other side of the server, and of the gate of a rank, is a script.
"""

from __future__ import annotations

import json
import socket
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.live.scripted import launch
from tests.live_bench import Supervisor, probe_module
from tests.marked import eventually
from tuner.hosts.probe import live_file
from tuner.live.jobs import publish_here

rank_live_gate, rank_live_knobs = probe_module("rank_live_gate"), probe_module("rank_live_knobs")
line = probe_module("rank_live_line")

#: What one rank offers, with the values at the start.
STARTED = {"chunk": 8, "workers": 1}

#: What breaks the protocol, from either side.
NONSENSE = [b"\xff\xfe\n", b'{"type":"weather"}\n', b"x" * 70_000]


def hello(**changes: Any) -> dict[str, Any]:
    return {"type": "hello", "rank": 0, "ranks": 1, "hook": "session", "can": STARTED, **changes}


class ToServer:
    """Ranks that are connected to a server, as the script has them say; 0: it waits for one."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.supervisor = Supervisor(folder, max(1, ranks))
        self.server = self.supervisor.server
        self.place = json.loads(self.supervisor.path.read_text())
        self.lines: list[Any] = []
        for rank in range(ranks):
            self.come(self.place, ranks=ranks, rank=rank)

    def come(self, place: dict[str, Any], **changes: Any) -> None:
        """Connect a rank; an exception if it is not taken."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(line.to_tool, place, hello(**changes))
            while not future.done():
                self.server.receive(0.01)
        self.lines.append(future.result())

    def listen(self) -> None:
        for _ in range(4):
            self.server.receive(0.02)

    def close(self) -> None:
        self.supervisor.close()
        for connection in self.lines:
            connection.close()


Connect = Callable[[int], ToServer]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield lambda ranks: stack.enter_context(closing(ToServer(tmp_path, ranks)))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        *((text, "") for text in NONSENSE),
        (json.dumps(hello(nonce="", mac="")).encode() + b"\n", "a second hello"),
        *(
            (b'{"type":"steps","first":4,"s":[%s],"marks":[]}\n' % time_s, "no message")
            for time_s in (b"-1", b"NaN", b'"5"')
        ),
        (b"[" * 50_000 + b"\n", "no message"),
    ],
)
def test_nonsense_of_a_rank_ends_it_for_all(connect: Connect, sent: bytes, said: str) -> None:
    bench = connect(2)
    bench.lines[1].socket.sendall(sent)
    bench.listen()
    assert bench.server.problem.startswith("rank 1 was dropped: ") and said in bench.server.problem
    assert not bench.server.listens()
    bench.server.switch({})  # nobody is there
    with pytest.raises(ConnectionError):
        bench.lines[0].receive(5)


@pytest.mark.parametrize(
    ("rank", "is_switched", "is_lost"), [(1, False, False), (1, True, True), (0, False, True)]
)
def test_a_rank_that_ends_ends_it_for_all_if_it_is_waited_for(
    connect: Connect, rank: int, is_switched: bool, is_lost: bool
) -> None:
    bench = connect(2)
    if is_switched:
        bench.server.switch({})
    bench.lines[rank].close()
    bench.listen()
    assert (bench.server.lost_s > 0) is is_lost
    assert not bench.server.listens()


@pytest.mark.parametrize("changes", [{"secret": "another"}, {"ranks": -2}, {"type": "steps"}])
def test_strangers_are_kept_out_and_end_nothing(connect: Connect, changes: dict[str, Any]) -> None:
    bench = connect(0)
    with pytest.raises(ConnectionError):
        bench.come({**bench.place, **changes}, **changes)
    assert (bench.server.problem, bench.server.arrived) == ("", 0)
    bench.come(bench.place)
    assert bench.server.listens()


def test_the_file_is_its_owners_and_goes_again(tmp_path: Path) -> None:
    started = launch(tmp_path, 1)
    started.folder.mkdir()
    path = live_file(started.folder)
    path.write_text("left from before")
    publish_here(started, "now")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "now"
    for _ in range(2):
        publish_here(started, "")
        assert not path.exists()


class ToRank:
    """The gate of a rank that takes part, at an iteration that the test ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.place = {"addresses": ["127.0.0.1"], "port": port, "secret": "known"}
        self.values = dict(STARTED)
        knobs = rank_live_knobs.Knobs()
        knobs.offer(tuple(STARTED), self.values.update, lambda: self.values)
        self.gate = rank_live_gate.Gate(self.place, 0, 1, knobs)

    def begin(self, secret: str = "known") -> None:
        """Have the rank connect, and show it the secret."""
        self.gate.boundary(2, "session")
        connected, _ = self._listener.accept()
        self.line = line.Line(connected)
        self.line.send({"nonce": "n"})
        greeting = self.line.receive(5)
        nonces = "n", greeting["nonce"]
        assert greeting["mac"] == line.mac("known", "rank", *nonces)
        self.line.send({"mac": line.mac(secret, "tool", *nonces)})

    def step(self) -> None:
        self.gate.note_iteration(0.5, False)
        self.gate.boundary(3, "session")

    def close(self) -> None:
        if hasattr(self, "line"):
            self.line.close()
        self._listener.close()
        eventually(lambda: self.gate.passive)


@pytest.fixture
def rank() -> Iterator[ToRank]:
    with closing(ToRank()) as rank:
        yield rank


@pytest.mark.parametrize("sent", [*NONSENSE, b'{"type":"at"}\n', None])  # None: it is closed
def test_nonsense_of_the_tool_ends_it_for_the_rank(rank: ToRank, sent: bytes | None) -> None:
    rank.begin()
    if sent is None:
        rank.line.close()
    else:
        rank.line.socket.sendall(sent)
    eventually(lambda: rank.gate.passive)
    rank.step()
    assert rank.values == STARTED


def test_a_tool_that_does_not_know_the_secret_is_not_obeyed(rank: ToRank) -> None:
    rank.begin("another")
    eventually(lambda: rank.gate.passive)


def test_a_silent_tool_is_waited_for_a_while(rank: ToRank, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank in code that holds Python's lock cannot answer, and may wait for the others there."""
    monkeypatch.setattr(rank_live_gate, "_GATE_S", 0.1)
    rank.begin()
    rank.line.send({"type": "stop"})
    assert rank.line.receive(5)["type"] == "stopped"
    rank.step()
    assert rank.gate.passive and rank.values == STARTED


def test_the_address_of_the_tool_is_taken(rank: ToRank, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", int(str(rank.place["port"])))):  # says nothing
        rank.place["addresses"] = ["127.0.0.3", "127.0.0.2", "127.0.0.1"]
        monkeypatch.setattr(line, "_DIAL_S", 0.3)
        rank.begin()
        time.sleep(0.1)
        assert not rank.gate.passive
