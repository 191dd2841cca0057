"""The connections to the ranks of a running job: the messages (JSON lines) and the tool's end.

Ranks are processes that run the user's program: everything they send is checked. Whatever breaks
the protocol ends all connections, and the job goes on without the tool.

A file for its owner only tells the ranks where to connect, and a secret. Who connects gets a
nonce, and is heard once he has shown that he knows the secret; the tool shows it too.

A switch: "stop" goes to all ranks, each answers with its iteration, and "at" says to all the one at
which they change: one more than the latest (``wrappers/probe/rank_live_gate.py``).
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from tuner.model import Value
from tuner.model.errors import shown
from tuner.model.wording import one_line

#: No line is longer, bytes, its end included.
MOST_BYTES = 1 << 16

_MOST_COUNT, _MOST_ITEMS, _LONGEST_NAME = 2**53, 4096, 100


class WireError(Exception):
    """A line that breaks the protocol."""


def _value(value: object) -> Value | None:
    """A knob's value as it was read in the rank; ``None`` if it is no value of a knob."""
    if isinstance(value, str):
        return one_line(value, _LONGEST_NAME)
    if isinstance(value, float):  # that of a library, or what stands for a text like 0.5
        return int(value) if value.is_integer() and abs(value) <= _MOST_COUNT else repr(value)
    return value if type(value) is int and abs(value) <= _MOST_COUNT else None


def _path_end(library: object) -> object:
    return "/".join(library.split("/")[-2:]) if isinstance(library, str) else library


_clean = partial(one_line, most=_LONGEST_NAME)
_Items = Field(max_length=_MOST_ITEMS)
Count = Annotated[int, Field(strict=True, ge=0, le=_MOST_COUNT)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=_MOST_COUNT)]
Text = Annotated[str, BeforeValidator(lambda text: one_line(str(text)))]
Name = Annotated[str, BeforeValidator(lambda text: _clean(str(text)))]
Values = Annotated[dict[Name, Annotated[Value | None, BeforeValidator(_value)]], _Items]


@dataclass(frozen=True)
class Hello:
    """A rank can be switched; ``can`` has the knobs, with their present values.

    With its ``nonce`` and ours ``mac`` shows that it knows the secret.
    """

    rank: Count
    ranks: Count
    hook: Name
    can: Values
    nonce: Name = ""
    mac: Name = ""
    type: Literal["hello"] = "hello"


@dataclass(frozen=True)
class Stopped:
    """A rank stops before the next iteration after this one."""

    iteration: Count
    type: Literal["stopped"] = "stopped"


@dataclass(frozen=True)
class Steps:
    """How long iterations of rank 0 took, from ``first`` on, s; those in ``marks`` do not count."""

    first: Count
    times_s: Annotated[tuple[Seconds, ...], Field(alias="s", max_length=_MOST_ITEMS)]
    marks: Annotated[frozenset[Count], _Items] = frozenset()
    type: Literal["steps"] = "steps"

    def timings(self) -> Iterator[tuple[int, float, bool]]:
        """Yield each iteration with its time, s, and whether it is marked."""
        for iteration, time_s in enumerate(self.times_s, self.first):
            yield iteration, time_s, iteration in self.marks


@dataclass(frozen=True)
class RankState:
    """What a rank read back after a switch; ``errors`` has a reason by the knob that failed."""

    rank: Count
    blas_threads: Count | None = None
    opencv_threads: Count | None = None
    pools: Annotated[
        tuple[tuple[Annotated[Name, BeforeValidator(_path_end)], Count], ...], _Items
    ] = ()
    affinity: Annotated[tuple[Count, ...], _Items] = ()
    values: Values = field(default_factory=dict)
    errors: Annotated[dict[Name, Text], _Items] = field(default_factory=dict)
    allocator: Name | None = None
    type: Literal["state"] = "state"


@dataclass(frozen=True)
class End:
    """The rank ends, rank 0 with this many ``iterations``; "over": it waits for an order first."""

    iterations: Count
    type: Literal["over", "end"] = "end"


@dataclass(frozen=True)
class Switched:
    """Every rank has the values of the order from ``iteration`` on."""

    iteration: int
    ranks: tuple[RankState, ...]


#: What comes of the messages of all ranks.
Message = Steps | Switched

_Sent = Hello | Stopped | Steps | RankState | End
_ADAPTER: TypeAdapter[_Sent] = TypeAdapter(Annotated[_Sent, Field(discriminator="type")])


def parse(line: bytes) -> _Sent:
    """A line from a rank.

    Raises:
        WireError: It is no line of the protocol.
    """
    try:
        message = _ADAPTER.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:
            raise WireError("it sent a line that is no message") from error
        name = next(str(part) for part in reversed(first["loc"]) if isinstance(part, str))
        what = "nothing" if first["type"] == "missing" else shown(first["input"])
        raise WireError(f"it sent {one_line(name, 60)} {what}") from error
    return message


# --- the tool's end -------------------------------------------------------------------------


@dataclass(eq=False)
class _Line:
    """The connection of a rank, or of who has not shown yet that he is one (``rank`` is -1)."""

    socket: socket.socket
    nonce: str = field(default_factory=lambda: os.urandom(16).hex())
    rank: int = -1
    has_ended: bool = False
    received: bytes = b""

    def send(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")


class JobServer:
    """Listens from its making until it is closed.

    Args:
        ranks: How many there are.
        publish: Lets the ranks read a text: how they reach it; empty once they need not.
        addresses: Those of this host that the ranks may reach; if they are on others too, it
            listens on all.
        whole: The program is to come to its own end, and say so, before it is switched.

    Attributes:
        hello: What the job can do, once all ranks have come: that of rank 0, with what all can.
        problem: Why there is no connection, or it was given up; else empty.
        lost_s: When the connections were closed, by `time.monotonic`; 0.0: they are not.
        iterations: How many the program made by its own end; ``None``: it has not said.
        is_over: It is at its own end, and waits for an order.
    """

    def __init__(
        self,
        ranks: int,
        publish: Callable[[str], object],
        addresses: Sequence[str] = (),
        *,
        whole: bool = False,
    ) -> None:
        self._ranks, self._publish = ranks, publish
        self.hello: Hello | None = None
        self.problem, self.lost_s = "", 0.0
        self.iterations: int | None = None
        self.is_over = False
        self._secret = os.urandom(32).hex()
        self._lines: dict[int, _Line] = {}
        self._hellos: dict[int, Hello] = {}
        self._order: Mapping[str, Value | None] | None = None  # while ranks stop for it
        self._stopped: dict[int, int] = {}
        self._iteration = 0  # at which all change
        self._states: dict[int, RankState] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket()
        try:
            self._listener.bind(("" if addresses else "127.0.0.1", 0))
            self._listener.listen(ranks)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)
            place = {
                "addresses": [*addresses] or ["127.0.0.1"],
                "port": self._listener.getsockname()[1],
                "secret": self._secret,
                "whole": whole,
            }
            publish(json.dumps(place))
        except OSError as error:
            self.problem = f"the ranks cannot be told how to reach tune: {error}"

    @property
    def is_open(self) -> bool:
        """Whether all ranks are connected, and none is at its end."""
        lines = self._lines.values()
        return len(lines) == self._ranks and not any(line.has_ended for line in lines)

    @property
    def come(self) -> int:
        """How many ranks have said hello so far."""
        return len(self._hellos)

    def listens(self) -> bool:
        """Whether all ranks have said hello and are connected; later messages are dropped."""
        self.receive(0.0)
        return self.hello is not None and self.is_open

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came; wait at most this long for the first."""
        messages: list[Message] = []
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.data is None:
                self._accept()
            elif key.data.socket.fileno() >= 0:  # not given up since
                messages += self._read(key.data)
        return messages

    def receive_all(self) -> list[Message]:
        """What has come by now, also from a program that has connected and ended since."""
        messages: list[Message] = []
        while self._selector.select(0.0):
            messages += self.receive(0.0)
        return messages

    def switch(self, values: Mapping[str, Value | None]) -> None:
        """Have all ranks change to these values; ``None``: as the job was started."""
        if not self.is_open:
            self.hang_up()
        self._order, self._stopped, self._states = dict(values), {}, {}
        self._tell(type="stop")

    def hang_up(self) -> None:
        """Close the connections: the job goes on as any other."""
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
            if key.data is not None:
                key.data.socket.close()
        self._listener.close()
        self._lines = {}
        self.lost_s = self.lost_s or time.monotonic()

    def close(self) -> None:
        """Close all; harmless when repeated."""
        if self._selector.get_map() is not None:
            self.hang_up()
            self._selector.close()
            self._publish("")

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has gone again
            connected, _ = self._listener.accept()
            connected.setblocking(False)
            line = _Line(connected)
            self._selector.register(connected, selectors.EVENT_READ, line)
            line.send(nonce=line.nonce)

    def _read(self, line: _Line) -> list[Message]:
        try:
            chunk = line.socket.recv(MOST_BYTES)
        except OSError as error:
            self._gone(line, f"a connection broke: {error}")
            return []
        if not chunk:
            self._gone(line, f"rank {line.rank} closed its connection")
            return []
        *texts, line.received = (line.received + chunk).split(b"\n")
        messages: list[Message] = []
        try:
            if any(len(text) >= MOST_BYTES for text in (*texts, line.received)):
                raise WireError(f"it sent a line of more than {MOST_BYTES >> 10} KiB")
            for text in texts:
                if line.socket.fileno() >= 0:  # not given up since
                    messages += self._take(line, parse(text))
        except (WireError, OSError) as error:
            self._gone(line, str(error))
        return messages

    def _take(self, line: _Line, sent: _Sent) -> list[Message]:
        """What a message of a rank comes to; mostly itself."""
        if isinstance(sent, Hello) != (line.rank < 0):
            raise WireError("a second hello" if line.rank >= 0 else "its first line is no hello")
        if isinstance(sent, Hello):
            self._welcome(line, sent)
            return []
        if isinstance(sent, Stopped):
            self._stopped[line.rank] = sent.iteration
            if len(self._stopped) == self._ranks:
                self._iteration = max(self._stopped.values()) + 1
                values, self._order = self._order, None
                self._tell(type="at", iteration=self._iteration, values=values)
            return []
        if isinstance(sent, RankState):
            self._states[line.rank] = replace(sent, rank=line.rank)
            if len(self._states) < self._ranks:
                return []
            states = (state for _, state in sorted(self._states.items()))
            return [Switched(self._iteration, tuple(states))]
        if isinstance(sent, Steps):
            return [] if line.rank else [sent]
        if sent.type == "end":
            line.has_ended = True
            if self._order is not None:  # the others wait for what it will not answer
                self.hang_up()
        if line.rank == 0:
            self.is_over |= sent.type == "over"
            self.iterations = sent.iterations if self.iterations is None else self.iterations
        return []

    def _welcome(self, line: _Line, hello: Hello) -> None:
        """A rank has come; the hello of the job once it is the last one."""
        nonces = line.nonce, hello.nonce
        own = _mac(self._secret, "rank", *nonces)
        if not hmac.compare_digest(hello.mac.encode(), own.encode()):
            raise WireError("it does not know the secret")
        if hello.ranks != self._ranks or hello.rank >= self._ranks or hello.rank in self._hellos:
            line.rank = hello.rank
            raise WireError(f"rank {hello.rank} of {hello.ranks} came to a job of {self._ranks}")
        line.rank = hello.rank
        line.send(mac=_mac(self._secret, "tool", *nonces))
        self._lines[line.rank], self._hellos[line.rank] = line, hello
        if self.come < self._ranks:
            return
        first, *others = (hello for _, hello in sorted(self._hellos.items()))
        common = set(first.can).intersection(*(hello.can for hello in others))
        self.hello = replace(first, can={k: v for k, v in first.can.items() if k in common})
        self._publish("")  # nobody else needs it

    def _tell(self, **message: Any) -> None:
        """Send to all ranks: they read at once, so there is room for so little."""
        try:
            for line in self._lines.values():
                line.send(**message)
        except OSError as error:
            self.problem = f"it does not take an order: {error}"
            self.hang_up()

    def _gone(self, line: _Line, problem: str) -> None:
        """A connection is at its end. Nothing more comes of a rank that has said so before."""
        if line.rank < 0 or (line.rank > 0 and line.has_ended):
            self._selector.unregister(line.socket)
            line.socket.close()
        else:
            self.problem = "" if line.has_ended else problem
            self.hang_up()


def _mac(secret: str, side: str, *nonces: str) -> str:
    """What a side shows: only who knows the secret can make it."""
    return hmac.digest(secret.encode(), "/".join((side, *nonces)).encode(), "sha256").hex()
