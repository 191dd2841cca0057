"""The live protocol: the same conversations, held by the tool's server and by the gate of a rank.

On the other side is a script, which speaks by the table; what the real side answers is compared.
"""

from __future__ import annotations

import json
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.scripted import launch
from tests.live_bench import Supervisor, probe_module
from tests.marked import eventually
from tuner.hosts.probe import live_file
from tuner.live.job_server import RankState
from tuner.live.jobs import publish_here

rank_live_gate, rank_live_knobs = probe_module("rank_live_gate"), probe_module("rank_live_knobs")
line = probe_module("rank_live_line")

#: What one rank offers, and what it answers to an order: (order, values in force, errors).
STARTED = {"chunk": 8, "workers": 1, "fails": None}
SWITCHES: list[tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = [
    ({"chunk": 16}, {"chunk": 16}, {}),
    ({"chunk": 16, "workers": 2}, {"chunk": 16, "workers": 2}, {}),
    ({}, {}, {}),
    ({"fails": 1, "workers": 2}, {"workers": 2}, {"fails": "ValueError: not here"}),
    ({"unknown": 1}, {}, {"unknown": "cannot be changed here"}),
    ({"chunk": None}, {"chunk": 8}, {}),
]

#: What breaks the protocol, from either side.
NONSENSE = [b"\xff\xfe\n", b'{"type":"weather"}\n', b"x" * 70_000]


def hello(**changes: Any) -> dict[str, Any]:
    return {"type": "hello", "rank": 0, "ranks": 1, "hook": "session", "can": STARTED, **changes}


def state(values: dict[str, Any], errors: dict[str, str]) -> dict[str, Any]:
    return {"type": "state", "rank": 0, "values": {**STARTED, **values}, "errors": errors}


# --- the server, and ranks that are a script -------------------------------------------------


class ToServer:
    """Ranks that are connected to a server, as the script has them say."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.supervisor = Supervisor(folder, ranks)
        self.server = self.supervisor.server
        self.place = json.loads(self.supervisor.path.read_text())
        self.lines: list[Any] = []

    def come(self, place: dict[str, Any] | None = None, **changes: Any) -> None:
        """Connect a rank; an Exception if it is not taken."""
        result: list[Any] = []

        def dial() -> None:
            try:
                result.append(line.to_tool(place or self.place, hello(**changes)))
            except Exception as error:
                result.append(error)

        thread = threading.Thread(target=dial)
        thread.start()
        while thread.is_alive():
            self.server.receive(0.01)
        if isinstance(result[0], Exception):
            raise result[0]
        self.lines.append(result[0])

    def heard(self) -> list[Any]:
        """Return what came of the messages so far."""
        return [message for _ in range(4) for message in self.server.receive(0.02)]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[int], ToServer]]:
    """Make a server for so many ranks, none of which has come."""
    benches: list[ToServer] = []

    def make(ranks: int) -> ToServer:
        benches.append(ToServer(tmp_path, ranks))
        return benches[-1]

    yield make
    for bench in benches:
        bench.supervisor.close()
        for connection in bench.lines:
            connection.close()


Connect = Callable[[int], ToServer]


def test_the_server_switches_a_rank(connect: Connect) -> None:
    bench = connect(1)
    bench.come()
    assert bench.server.hello is not None and bench.server.hello.can == STARTED
    (rank,) = bench.lines
    for number, (order, values, errors) in enumerate(SWITCHES):
        bench.server.switch(order)
        assert rank.receive(5) == {"type": "stop"}
        rank.send({"type": "stopped", "iteration": number})
        assert bench.heard() == []
        assert rank.receive(5) == {"type": "at", "iteration": number + 1, "values": order}
        rank.send(state(values, errors))
        (switched,) = bench.heard()
        assert switched.iteration == number + 1
        assert switched.ranks == (RankState(0, {**STARTED, **values}, errors),)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        *((text, "") for text in NONSENSE),
        (json.dumps(hello()).encode() + b"\n", "a second hello"),
        *(
            (b'{"type":"steps","first":4,"s":[%s],"marks":[]}\n' % time_s, "no message")
            for time_s in (b"-1", b"NaN", b'"5"')
        ),
        (b"[" * 50_000 + b"\n", "no message"),
    ],
)
def test_nonsense_of_a_rank_ends_it_for_all(connect: Connect, sent: bytes, said: str) -> None:
    bench = connect(2)
    bench.come(ranks=2)
    bench.come(ranks=2, rank=1)
    bench.lines[1].socket.sendall(sent)
    bench.heard()
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
    bench.come(ranks=2)
    bench.come(ranks=2, rank=1)
    if is_switched:
        bench.server.switch({})
    bench.lines[rank].close()
    bench.heard()
    assert (bench.server.lost_s > 0) is is_lost
    assert not bench.server.listens()


@pytest.mark.parametrize("changes", [{"secret": "another"}, {"ranks": -2}, {"type": "steps"}])
def test_strangers_are_not_let_in_and_end_nothing(
    connect: Connect, changes: dict[str, Any]
) -> None:
    bench = connect(1)
    with pytest.raises(ConnectionError):
        bench.come({**bench.place, **changes}, **changes)
    assert (bench.server.problem, bench.server.arrived) == ("", 0)
    bench.come()
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


# --- a rank, and a tool that is a script -----------------------------------------------------


class ToRank:
    """The gate of a rank that takes part, at an iteration that the test ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.place = {"addresses": ["127.0.0.1"], "port": port, "secret": "known"}
        self.values = dict(STARTED)
        knobs = rank_live_knobs.Knobs()
        knobs.offer(("chunk", "workers"), self.values.update, self._read)
        knobs.offer(("fails",), self._fail)
        self.reports = 0
        self.gate = rank_live_gate.Gate(self.place, 0, 1, knobs, self._report)
        self.iteration = 2

    def _read(self) -> dict[str, Any]:
        return {name: self.values[name] for name in ("chunk", "workers")}

    def _fail(self, _: object) -> None:
        raise ValueError("not\nhere")

    def _report(self) -> None:
        self.reports += 1

    def begin(self, secret: str = "known") -> None:
        """Have the rank connect, and show it the secret."""
        self.gate.boundary(self.iteration, "session")
        connected, _ = self._listener.accept()
        self.line = line.Line(connected)
        self.line.send({"nonce": "n"})
        self.hello = self.line.receive(5)
        nonces = "n", self.hello.pop("nonce")
        assert self.hello.pop("mac") == line.mac("known", "rank", *nonces)
        self.line.send({"mac": line.mac(secret, "tool", *nonces)})

    def step(self, elapsed_s: float = 0.5, *, marked: bool = False) -> None:
        """End an iteration."""
        self.gate.note_iteration(elapsed_s, marked)
        self.iteration += 1
        self.gate.boundary(self.iteration, "session")

    def answer(self) -> dict[str, Any]:
        """Return what the rank says to an order."""
        while (said := self.line.receive(5))["type"] == "steps":
            pass
        return dict(said)

    def close(self) -> None:
        if hasattr(self, "line"):
            self.line.close()
        self._listener.close()
        eventually(lambda: self.gate.passive)


@pytest.fixture
def rank() -> Iterator[ToRank]:
    made = ToRank()
    yield made
    made.close()


def test_a_rank_is_switched(rank: ToRank) -> None:
    rank.begin()
    own = {"omp_threads", "opencv_threads"}
    assert {k: v for k, v in rank.hello.pop("can").items() if k not in own} == STARTED
    assert rank.hello == {k: v for k, v in hello().items() if k != "can"}
    assert not rank.gate.was_ordered
    for number, (order, values, errors) in enumerate(SWITCHES, 1):
        rank.line.send({"type": "stop"})
        assert rank.answer() == {"type": "stopped", "iteration": rank.iteration}
        at = rank.iteration + 1
        rank.line.send({"type": "at", "iteration": at, "values": order})
        while rank.reports < number:
            rank.step()
        assert rank.iteration == at, "it stops before this one"
        answer = rank.answer()
        answer["values"] = {k: v for k, v in answer["values"].items() if k not in own}
        assert answer == state({**rank._read(), **values}, errors)
    assert rank.gate.was_ordered


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


def test_a_tool_that_does_not_answer_is_not_waited_for_for_ever(
    rank: ToRank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank in code that holds Python's lock cannot answer, and may wait for the others there."""
    monkeypatch.setattr(rank_live_gate, "_GATE_S", 0.1)
    rank.begin()
    rank.line.send({"type": "stop"})
    assert rank.answer()["type"] == "stopped"
    rank.step()
    assert rank.gate.passive and rank.values == STARTED


def test_of_several_addresses_the_one_of_the_tool_is_taken(
    rank: ToRank, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.2", int(str(rank.place["port"])))):  # says nothing
        rank.place["addresses"] = ["127.0.0.3", "127.0.0.2", "127.0.0.1"]
        monkeypatch.setattr(line, "_DIAL_S", 0.3)
        rank.begin()
        time.sleep(0.1)
        assert not rank.gate.passive
