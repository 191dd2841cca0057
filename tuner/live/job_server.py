"""The tool's end of the connections to the ranks of a running job.

The protocol is in ``wrappers/probe/rank_live_line.py``, which the ranks load too. They are
processes that run the user's program, so everything they send is checked. Whatever breaks the
protocol ends all connections, and the job goes on without the tool. So does the end of rank 0, and
that of any rank while a switch is under way.

Every caller gets a nonce, and is a rank once it has shown that it knows the secret. A switch:
"stop" goes to all ranks, each answers with its iteration, and "at" says to all at which iteration
they change: one more than the latest of these (``wrappers/probe/rank_live_gate.py``).
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
from pathlib import Path
from typing import Any

from tuner.hosts.untrusted_files import create
from tuner.model import Value
from tuner.model.wording import one_line

_protocol: Any = import_module("tuner.wrappers.probe.rank_live_line")

_MOST_COUNT, _MOST_ITEMS, _LONGEST_NAME = 2**53, 4096, 100


class WireError(ValueError):
    """A line that breaks the protocol."""


def _knob_value(value: object) -> Value | None:
    """Return a knob's value as it was read in the rank; ``None`` if it is no value of a knob."""
    if isinstance(value, str):
        return one_line(value, _LONGEST_NAME)
    if isinstance(value, float):  # a library gave it, or the study has it as a text like 0.5
        return int(value) if value.is_integer() and abs(value) <= _MOST_COUNT else repr(value)
    return value if type(value) is int and abs(value) <= _MOST_COUNT else None  # no bool


def _name(text: object) -> str:
    return one_line(str(text), _LONGEST_NAME)


def _number(number: Any, *kinds: type) -> Any:
    """Return the number; ``ValueError`` if it is none of these kinds, or out of bounds."""
    if type(number) in kinds and 0 <= number <= _MOST_COUNT:
        return number
    raise ValueError(number)


def _items(items: Any, kind: Any) -> Any:
    """Return the list or the object; ``ValueError`` if it is none or has too many items."""
    if isinstance(items, kind) and len(items) <= _MOST_ITEMS:
        return items
    raise ValueError(items)


def _values(values: Any) -> dict[str, Value | None]:
    return {_name(name): _knob_value(value) for name, value in _items(values, dict).items()}


@dataclass(frozen=True)
class Hello:
    """A rank accepts switches; ``can`` has the knobs that it can change, with their present values.

    ``mac`` is made of the secret, its ``nonce`` and ours: so it shows that it knows the secret.
    """

    rank: int
    ranks: int
    hook: str
    can: dict[str, Value | None]
    nonce: str
    mac: str


@dataclass(frozen=True)
class AtGate:
    """A rank answers "stop": it waits after this iteration until it hears when to change."""

    iteration: int


@dataclass(frozen=True)
class Steps:
    """The times of iterations of rank 0, from ``first`` on, s; those in ``marks`` do not count."""

    first: int
    times_s: tuple[float, ...]
    marks: frozenset[int]

    def timings(self) -> Iterator[tuple[int, float, bool]]:
        """Yield each iteration with its time, s, and whether it is marked."""
        for iteration, time_s in enumerate(self.times_s, self.first):
            yield iteration, time_s, iteration in self.marks


@dataclass(frozen=True)
class RankState:
    """What a rank read back after a switch; ``errors`` has a reason by the knob that failed."""

    rank: int
    values: dict[str, Value | None]
    errors: dict[str, str]


@dataclass(frozen=True)
class Switched:
    """Every rank has carried out the order, in force from ``iteration`` on."""

    iteration: int
    ranks: tuple[RankState, ...]


#: What the server hands on to the study, of what the ranks send.
Message = Steps | Switched

_FromRank = Hello | AtGate | Steps | RankState


def parse(line: bytes) -> _FromRank:
    """Return the message in a line from a rank.

    Raises:
        WireError: It is no line of the protocol.
    """
    try:
        return _message(json.loads(line))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise WireError(f"it sent a line that is no message: {line[:60]!r}") from error


def _message(sent: Any) -> _FromRank:
    """Return the message that JSON describes; one of many exceptions if it describes none."""
    match sent["type"]:
        case "hello":
            rank, ranks = (_number(sent[key], int) for key in ("rank", "ranks"))
            hook, nonce, mac = (_name(sent[key]) for key in ("hook", "nonce", "mac"))
            return Hello(rank, ranks, hook, _values(sent["can"]), nonce, mac)
        case "stopped":
            return AtGate(_number(sent["iteration"], int))
        case "steps":
            times_s = tuple(_number(time_s, int, float) for time_s in _items(sent["s"], list))
            marks = frozenset(_number(mark, int) for mark in _items(sent["marks"], list))
            return Steps(_number(sent["first"], int), times_s, marks)
        case "state":
            errors = _items(sent["errors"], dict).items()
            reasons = {_name(name): one_line(str(reason)) for name, reason in errors}
            return RankState(_number(sent["rank"], int), _values(sent["values"]), reasons)
    raise ValueError(sent["type"])


def publish(path: Path, text: str) -> None:
    """Write a text into a file for the ranks; an empty one removes it."""
    path.unlink(missing_ok=True)
    if text:
        with os.fdopen(create(path), "w") as file:
            file.write(text)


@dataclass(eq=False)
class _Caller:
    """A process that has connected; ``rank`` is -1 until it has shown that it is a rank."""

    line: Any  # a `Line` of the protocol
    nonce: str = field(default_factory=lambda: os.urandom(16).hex())
    rank: int = -1


class JobServer:
    """Listens to the ranks of a job, so many, from :meth:`listen` on until it is closed.

    ``publish`` lets the ranks read a text: how they reach it; empty once they need not. Ranks on
    other hosts reach ours at one of the ``addresses``. If it ``extends`` the job, this goes on
    beyond its own end as long as the server is there. Once all ranks have come, ``hello`` says
    which knobs the job can change. ``problem`` says why there is no connection, or it was given up,
    and ``lost_s`` when the connections were closed, by `time.monotonic`; 0.0: they are not.
    """

    def __init__(
        self,
        ranks: int,
        publish: Callable[[str], object],
        addresses: Sequence[str] = (),
        *,
        extends: bool = True,
    ) -> None:
        self._ranks, self._publish, self._addresses = ranks, publish, addresses
        self._extends = extends
        self.hello: Hello | None = None
        self.problem, self.lost_s = "", 0.0
        self._secret = os.urandom(32).hex()
        self._lines: dict[int, Any] = {}  # by rank, as the next three
        self._hellos: dict[int, Hello] = {}
        self._stopped: dict[int, int] = {}  # the iteration that it answered "stop" with
        self._states: dict[int, RankState] = {}  # what it answered "at" with
        self._order: Mapping[str, Value | None] | None = None  # until all ranks have obeyed
        self._iteration = 0  # at which all change
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket()

    def listen(self) -> None:
        """Let the ranks know where to connect; if that fails, there is a :attr:`problem`."""
        try:
            self._listener.bind(("" if self._addresses else "127.0.0.1", 0))  # to any free port
            self._listener.listen(self._ranks)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)
            port = self._listener.getsockname()[1]
            addresses = [*self._addresses] or ["127.0.0.1"]
            place = {"addresses": addresses, "port": port, "extends": self._extends}
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
        self.receive(timeout_s=0.0)
        return self.is_open

    def receive(self, timeout_s: float) -> list[Message]:
        """Return the messages that came; wait at most this long for the first."""
        messages: list[Message] = []
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.data is None:  # the listener
                self._accept()
            elif key.data.line.socket.fileno() >= 0:  # not closed by a message of this loop
                messages += self._read(key.data)
        return messages

    def receive_all(self) -> list[Message]:
        """Return what has come by now, also from a program that has connected and ended since."""
        messages: list[Message] = []
        while self._selector.select(timeout=0.0):
            messages += self.receive(timeout_s=0.0)
        return messages

    def switch(self, values: Mapping[str, Value | None]) -> None:
        """Have all ranks change to these values; ``None``: as the job was started."""
        if not self.is_open:  # a rank has ended: not all could change together
            self.hang_up()
        self._order, self._stopped, self._states = dict(values), {}, {}
        self._send_to_all(type="stop")

    def hang_up(self) -> None:
        """Close the connections: the job goes on as one that accepts no switches."""
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
            if key.data is not None:
                key.data.line.close()
        self._listener.close()
        self._lines = {}
        self.lost_s = self.lost_s or time.monotonic()

    def close(self) -> None:
        """Close all, the file of the ranks too; harmless when repeated."""
        if self._selector.get_map() is not None:  # the selector is not closed yet
            self.hang_up()
            self._selector.close()
            self._publish("")  # which removes the file

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the caller has gone again
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            caller = _Caller(_protocol.Line(connection))
            self._selector.register(connection, selectors.EVENT_READ, caller)
            caller.line.send({"nonce": caller.nonce})

    def _read(self, caller: _Caller) -> list[Message]:
        messages: list[Message] = []
        try:
            for text in caller.line.read():
                if caller.line.socket.fileno() >= 0:  # not closed by a message before it
                    messages += self._take(caller, parse(text))
        except (ValueError, OSError) as error:
            # A rank that ends closes its connection; others may have work to do after it.
            has_ended = caller.rank > 0 and self._order is None and isinstance(error, OSError)
            if caller.rank < 0 or has_ended:
                self._selector.unregister(caller.line.socket)
                caller.line.close()
                self._lines.pop(caller.rank, None)
            else:
                self.problem = f"rank {caller.rank} was dropped: {error}"
                self.hang_up()
        return messages

    def _take(self, caller: _Caller, sent: _FromRank) -> list[Message]:
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
                self._send_to_all(type="at", iteration=self._iteration, values=self._order)
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
        expected_mac = _protocol.mac(self._secret, "rank", *nonces)
        if not hmac.compare_digest(hello.mac.encode(), expected_mac.encode()):
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
        self._publish("")  # no other process needs to connect

    def _send_to_all(self, **message: Any) -> None:
        """Send to all ranks. They read at once, so the sockets have room for so short a message."""
        try:
            for line in self._lines.values():
                line.send(message)
        except OSError as error:
            self.problem = f"it does not take an order: {error}"
            self.hang_up()
