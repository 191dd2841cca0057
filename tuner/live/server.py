"""The socket to rank 0 of a running job: the messages (JSON lines, version 2) and the tool's end.

Rank 0 is a process that runs the user's program: everything it sends is checked. Whatever breaks
the protocol ends the connection, and the job goes on without the tool.

The socket lies in the launch's folder, whose path may be too long for one (108 bytes, unix(7)):
it is bound through ``/proc/self/fd``. One connection is taken, the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

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
    """The first line: the job can be switched; ``can`` has the knobs, with their present values."""

    protocol: Literal[2]
    ranks: Count
    hook: Name
    can: Values
    type: Literal["hello"] = "hello"


@dataclass(frozen=True)
class Steps:
    """How long iterations took, from ``first`` on, s; those in ``marks`` are not to be counted."""

    first: Count
    times_s: Annotated[tuple[Seconds, ...], Field(alias="s", max_length=_MOST_ITEMS)]
    marks: Annotated[frozenset[Count], _Items] = frozenset()
    type: Literal["steps"] = "steps"

    def each(self) -> Iterator[tuple[int, float, bool]]:
        """Each iteration with its time, s, and whether it is marked."""
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


@dataclass(frozen=True)
class Switched:
    """Every rank has the values of order ``number`` from ``iteration`` on."""

    number: Count
    iteration: Count
    ranks: Annotated[tuple[RankState, ...], _Items]
    type: Literal["switched"] = "switched"


@dataclass(frozen=True)
class End:
    """The program ends, with this many ``iterations``; "over": it waits for an order first."""

    iterations: Count
    type: Literal["over", "end"] = "end"


Message = Hello | Steps | Switched | End

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def order(number: int, values: Mapping[str, Value | None]) -> bytes:
    """The order to change to these values; ``None``: as the job was started."""
    return json.dumps({"type": "switch", "number": number, "values": dict(values)}).encode() + b"\n"


def parse(line: bytes) -> Message | None:
    """A line from rank 0; ``None`` for a type that this version does not know.

    Raises:
        WireError: It is no line of the protocol.
    """
    try:
        message = _ADAPTER.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            return None
        if not first["loc"]:
            raise WireError("it sent a line that is no JSON object") from error
        name = next(str(part) for part in reversed(first["loc"]) if isinstance(part, str))
        what = "nothing" if first["type"] == "missing" else shown(first["input"])
        raise WireError(f"it sent {one_line(name, 60)} {what}") from error
    return message


# --- the tool's end -------------------------------------------------------------------------

#: The socket's name in the launch's folder, and the variable that tells the ranks of it.
NAME = "live.sock"
VARIABLE = "TUNE_LIVE_SOCKET"

#: With this variable rank 0 reports the program's own end, and waits there for an order.
PAUSE = "TUNE_LIVE_PAUSE"

#: An order may take this long to be sent, s.
SEND_S = 10.0


class JobServer:
    """Listens from its making until it is closed.

    Args:
        folder: The launch's.

    Attributes:
        hello: What the job can do, once it has said so.
        problem: Why no socket could be made, or the connection was given up; else empty.
        lost_s: When that was, by `time.monotonic`.
        iterations: How many the program made by its own end; ``None``: it has not said.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder.absolute() / NAME
        self.hello: Hello | None = None
        self.problem, self.lost_s = "", 0.0
        self.iterations: int | None = None
        self._received = b""
        self._peer: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(self._listener, self.path)
            self._listener.listen(1)
            self._listener.setblocking(False)
            self._selector.register(self._listener, selectors.EVENT_READ)
        except OSError as error:
            self.problem = f"no socket can be made in {folder}: {error.strerror}"

    @property
    def is_open(self) -> bool:
        """Whether somebody is connected."""
        return self._peer is not None

    def listens(self) -> bool:
        """Whether the job has said hello and is connected; later messages are dropped."""
        self.receive(0.0)
        return self.hello is not None and self.is_open

    def receive(self, timeout_s: float) -> list[Message]:
        """The messages that came, after at most this long."""
        found: list[Message] = []
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            if key.fileobj is self._listener:
                self._accept()
            else:
                found += self._read()
        return found

    def receive_all(self) -> None:
        """Take what has come by now, also from a program that has connected and ended since."""
        while self._selector.select(0.0):
            self.receive(0.0)

    def send(self, line: bytes) -> None:
        """Send an order; without a reader the connection is given up."""
        if self._peer is None:
            return
        try:
            self._peer.settimeout(SEND_S)
            self._peer.sendall(line)
            self._peer.setblocking(False)
        except OSError as error:  # a timeout too
            self._give_up(f"it does not take an order: {error}")

    def hang_up(self) -> None:
        """Close the connection: the job goes on as any other."""
        if self._peer is not None:
            self._selector.unregister(self._peer)
            self._peer.close()
            self._peer, self._received = None, b""

    def close(self) -> None:
        """Close all and remove the socket; harmless when repeated."""
        self.hang_up()
        self._selector.close()
        self._listener.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        # A second one would be another program's, or that of a rank which is not the first.
        self._selector.unregister(self._listener)
        self._listener.close()
        peer.setblocking(False)
        self._peer = peer
        self._selector.register(peer, selectors.EVENT_READ)

    def _read(self) -> list[Message]:
        assert self._peer is not None
        try:
            chunk = self._peer.recv(MOST_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            self._give_up(f"the connection broke: {error}")
            return []
        if not chunk:
            self._give_up("it closed the connection")
            return []
        *lines, rest = (self._received + chunk).split(b"\n")
        self._received = rest
        found: list[Message] = []
        try:
            if any(len(line) >= MOST_BYTES for line in (*lines, rest)):
                raise WireError(f"it sent a line of more than {MOST_BYTES >> 10} KiB")
            for line in lines:
                message = parse(line)
                self._check(message)
                found += [] if message is None else [message]
        except WireError as error:
            self._give_up(str(error))
        return found

    def _check(self, message: Message | None) -> None:
        """The first line, and only that one, is a hello; the iterations at the end are kept."""
        if isinstance(message, Hello) != (self.hello is None):
            is_first = self.hello is None
            raise WireError("its first line is no hello" if is_first else "a second hello")
        if isinstance(message, Hello):
            self.hello = message
            with contextlib.suppress(OSError):  # all ranks have met: nobody else needs it
                self.path.unlink()
        if isinstance(message, End) and self.iterations is None:
            self.iterations = message.iterations

    def _give_up(self, problem: str) -> None:
        self.problem, self.lost_s = problem, time.monotonic()
        self.hang_up()


def _bind(listener: socket.socket, path: Path) -> None:
    """Make the socket for its owner only, in place of one that is left from before."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fchmod(listener.fileno(), 0o600)  # the mode that the file is made with
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
