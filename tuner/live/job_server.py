"""The tool's end of the connections to the ranks of a running job.

The protocol is in ``wrappers/probe/rank_live_line.py``, which the ranks load too. They are
processes that run the user's program, so everything they send is checked. Whatever breaks the
protocol ends all connections, and the job goes on without the tool. So does the end of rank 0, and
that of any rank while a switch is under way.

Who connects gets a nonce, and is heard once he has shown that he knows the secret. A switch: "stop"
goes to all ranks, each answers with its iteration, and "at" says to all the one at which they
change: one more than the latest (``wrappers/probe/rank_live_gate.py``).
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
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from tuner.model import Value
from tuner.model.wording import one_line

_protocol: Any = import_module("tuner.wrappers.probe.rank_live_line")

_MOST_COUNT, _MOST_ITEMS, _LONGEST_NAME = 2**53, 4096, 100


class WireError(ValueError):
    """A line that breaks the protocol."""


def _value(value: object) -> Value | None:
    """Return a knob's value as it was read in the rank; ``None`` if it is no value of a knob."""
    if isinstance(value, str):
        return one_line(value, _LONGEST_NAME)
    if isinstance(value, float):  # that of a library, or what stands for a text like 0.5
        return int(value) if value.is_integer() and abs(value) <= _MOST_COUNT else repr(value)
    return value if type(value) is int and abs(value) <= _MOST_COUNT else None


_Items = Field(max_length=_MOST_ITEMS)
Count = Annotated[int, Field(strict=True, ge=0, le=_MOST_COUNT)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=_MOST_COUNT)]
Text = Annotated[str, BeforeValidator(lambda text: one_line(str(text)))]
Name = Annotated[str, BeforeValidator(lambda text: one_line(str(text), _LONGEST_NAME))]
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
class AtGate:
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
    values: Values = field(default_factory=dict)
    errors: Annotated[dict[Name, Text], _Items] = field(default_factory=dict)
    type: Literal["state"] = "state"


@dataclass(frozen=True)
class Switched:
    """Every rank has the values of the order from ``iteration`` on."""

    iteration: int
    ranks: tuple[RankState, ...]


#: What comes of the messages of all ranks.
Message = Steps | Switched

_Sent = Hello | AtGate | Steps | RankState
_ADAPTER: TypeAdapter[_Sent] = TypeAdapter(Annotated[_Sent, Field(discriminator="type")])


def parse(line: bytes) -> _Sent:
    """Return the message in a line from a rank.

    Raises:
        WireError: It is no line of the protocol.
    """
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError as error:
        raise WireError(f"it sent a line that is no message: {line[:60]!r}") from error


@dataclass(eq=False)
class _Caller:
    """Who has connected; ``rank`` is -1 until he has shown that he is one."""

    line: Any
    nonce: str = field(default_factory=lambda: os.urandom(16).hex())
    rank: int = -1


class JobServer:
    """Listens to so many ranks of a job, once told to, until it is closed.

    ``publish`` lets the ranks read a text: how they reach it; empty once they need not. Ranks on
    other hosts reach ours at one of the ``addresses``. Once all ranks have come, ``hello`` says
    what the job can do. ``problem`` says why there is no connection, or it was given up, and
    ``lost_s`` when the connections were closed, by `time.monotonic`; 0.0: they are not.
    """

    def __init__(
        self, ranks: int, publish: Callable[[str], object], addresses: Sequence[str] = ()
    ) -> None:
        self._ranks, self._publish, self._addresses = ranks, publish, addresses
        self.hello: Hello | None = None
        self.problem, self.lost_s = "", 0.0
        self._secret = os.urandom(32).hex()
        self._lines: dict[int, Any] = {}
        self._hellos: dict[int, Hello] = {}
        self._order: Mapping[str, Value | None] | None = None  # until all ranks have obeyed
        self._stopped: dict[int, int] = {}
        self._iteration = 0  # at which all change
        self._states: dict[int, RankState] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket()

    def listen(self) -> None:
        """Let the ranks know where to connect; if that fails, there is a :attr:`problem`."""
        try:
            self._listener.bind(("" if self._addresses else "127.0.0.1", 0))
            self._listener.listen(self._ranks)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)
            port = self._listener.getsockname()[1]
            place = {"addresses": [*self._addresses] or ["127.0.0.1"], "port": port}
            self._publish(json.dumps({**place, "secret": self._secret}))
        except OSError as error:
            self.problem = f"the ranks cannot be told how to reach tune: {error}"

    @property
    def is_open(self) -> bool:
        """Whether all ranks are connected."""
        return len(self._lines) == self._ranks

    @property
    def arrived(self) -> int:
        """How many ranks have said hello so far."""
        return len(self._hellos)

    def listens(self) -> bool:
        """Return whether all ranks are connected; messages that came later are dropped."""
        self.receive(0.0)
        return self.is_open

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came; wait at most this long for the first."""
        messages: list[Message] = []
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.data is None:
                self._accept()
            elif key.data.line.socket.fileno() >= 0:  # not given up since
                messages += self._read(key.data)
        return messages

    def receive_all(self) -> list[Message]:
        """Return what has come by now, also from a program that has connected and ended since."""
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
                key.data.line.close()
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
            caller = _Caller(_protocol.Line(connected))
            self._selector.register(connected, selectors.EVENT_READ, caller)
            caller.line.send({"nonce": caller.nonce})

    def _read(self, caller: _Caller) -> list[Message]:
        messages: list[Message] = []
        try:
            for text in caller.line.read():
                if caller.line.socket.fileno() >= 0:  # not given up since
                    messages += self._take(caller, parse(text))
        except (ValueError, OSError) as error:
            # A rank that ends closes its connection; others may have work to do after it.
            ends = caller.rank > 0 and self._order is None and isinstance(error, OSError)
            if caller.rank < 0 or ends:
                self._selector.unregister(caller.line.socket)
                caller.line.close()
                self._lines.pop(caller.rank, None)
            else:
                self.problem = f"rank {caller.rank} was dropped: {error}"
                self.hang_up()
        return messages

    def _take(self, caller: _Caller, sent: _Sent) -> list[Message]:
        """Return what a message of a rank comes to for the study: often nothing.

        Once the last rank has changed, that is the end of the switch. Of the iterations, which all
        ranks make together, those of rank 0 count.
        """
        if isinstance(sent, Hello) != (caller.rank < 0):
            raise WireError("a second hello" if caller.rank >= 0 else "its first line is no hello")
        if isinstance(sent, Hello):
            self._welcome(caller, sent)
        elif isinstance(sent, AtGate):
            self._stopped[caller.rank] = sent.iteration
            if len(self._stopped) == self._ranks:
                self._iteration = max(self._stopped.values()) + 1
                self._tell(type="at", iteration=self._iteration, values=self._order)
        elif isinstance(sent, RankState):
            self._states[caller.rank] = replace(sent, rank=caller.rank)
            if len(self._states) == self._ranks:
                self._order = None
                states = (state for _, state in sorted(self._states.items()))
                return [Switched(self._iteration, tuple(states))]
        elif caller.rank == 0:
            return [sent]
        return []

    def _welcome(self, caller: _Caller, hello: Hello) -> None:
        """Take in a rank; make the hello of the job once it is the last one."""
        nonces = caller.nonce, hello.nonce
        own = _protocol.mac(self._secret, "rank", *nonces)
        if not hmac.compare_digest(hello.mac.encode(), own.encode()):
            raise WireError("it does not know the secret")
        caller.rank = hello.rank
        if hello.ranks != self._ranks or hello.rank >= self._ranks or hello.rank in self._hellos:
            raise WireError(f"it came as one of {hello.ranks} ranks to a job of {self._ranks}")
        caller.line.send({"mac": _protocol.mac(self._secret, "tool", *nonces)})
        self._lines[caller.rank], self._hellos[caller.rank] = caller.line, hello
        if self.arrived < self._ranks:
            return
        first, *others = (hello for _, hello in sorted(self._hellos.items()))
        common = set(first.can).intersection(*(hello.can for hello in others))
        self.hello = replace(first, can={k: v for k, v in first.can.items() if k in common})
        self._publish("")  # nobody else needs it

    def _tell(self, **message: Any) -> None:
        """Send to all ranks: they read at once, so there is room for so little."""
        try:
            for line in self._lines.values():
                line.send(message)
        except OSError as error:
            self.problem = f"it does not take an order: {error}"
            self.hang_up()
