"""What passes between the tool and rank 0 of a running job: JSON lines, version 1.

What rank 0 says is written by a process that runs the user's program: nothing of it is trusted
before it was looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tuner.model import Value
from tuner.model.errors import shown
from tuner.model.wording import one_line

PROTOCOL = 1

_T = TypeVar("_T")

#: No line is longer, bytes, its end included.
MOST_BYTES = 1 << 16

#: What a job counts, and how many of anything it names.
_MOST_COUNT = 2**53
_MOST_ITEMS = 4096

#: Of a name no more than this is kept.
_LONGEST = 100


class WireError(Exception):
    """A line that breaks the protocol."""


@dataclass(frozen=True)
class Hello:
    """The first line: the job can be switched.

    ``can`` has the knobs that can be changed, each with the value that it has now (``None``:
    not known); ``iteration`` is the number of the one that begins.
    """

    ranks: int
    pid: int
    hook: str
    can: Mapping[str, Value | None]
    iteration: int


@dataclass(frozen=True)
class Steps:
    """How long iterations took, from ``first`` on, s; those in ``marks`` had something else in
    them (an evaluation, the start of an epoch)."""

    first: int
    times_s: tuple[float, ...]
    marks: frozenset[int]


@dataclass(frozen=True)
class RankSeen:
    """What a rank read back after a switch; ``errors`` are texts ``KNOB: REASON``."""

    rank: int
    pid: int
    blas_threads: int | None
    opencv_threads: int | None
    pools: tuple[tuple[str, int], ...]
    affinity: tuple[int, ...]
    values: Mapping[str, Value | None]
    errors: tuple[str, ...]
    allocator: str | None = None


@dataclass(frozen=True)
class Switched:
    """Every rank has the values of order ``number`` from ``iteration`` on."""

    number: int
    iteration: int
    took_s: float
    ranks: tuple[RankSeen, ...]


@dataclass(frozen=True)
class Over:
    """The program is at its own end, and waits for an order before it goes on.

    It has made so many ``iterations``.
    """

    iterations: int


@dataclass(frozen=True)
class End:
    """The program ends, with so many ``iterations``."""

    iterations: int


Message = Hello | Steps | Switched | Over | End


def switch(number: int, values: Mapping[str, Value | None]) -> bytes:
    """The order to change to these values; ``None``: as the job was started."""
    return _line({"type": "switch", "number": number, "values": dict(values)})


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def parse(line: bytes) -> Message | None:
    """A line from rank 0; ``None`` for a type that this version does not know.

    Raises:
        WireError: It is no line of the protocol, or says that there will be none, and why.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError("it sent a line that is no JSON") from error
    if not isinstance(message, dict):
        raise WireError("it sent a line that is no JSON object")
    read = _READERS.get(str(message.get("type")))
    return None if read is None else read(message)


def _hello(message: Mapping[str, Any]) -> Hello:
    protocol = message.get("protocol")
    if protocol != PROTOCOL or isinstance(protocol, bool):
        raise WireError(f"it speaks version {shown(protocol)} of the protocol, not {PROTOCOL}")
    can = _mapping(message, "can")
    return Hello(
        ranks=_count(message, "ranks"),
        pid=_count(message, "pid"),
        hook=one_line(str(message.get("hook", "")), _LONGEST),
        can=can,
        iteration=_count(message, "iteration"),
    )


def _steps(message: Mapping[str, Any]) -> Steps:
    times = tuple(_seconds(time_s, "s") for time_s in _items(message, "s"))
    marks = frozenset(_number(mark, "marks") for mark in _items(message, "marks"))
    return Steps(_count(message, "first"), times, marks)


def _switched(message: Mapping[str, Any]) -> Switched:
    return Switched(
        number=_count(message, "number"),
        iteration=_count(message, "iteration"),
        took_s=_seconds(message.get("took_s"), "took_s"),
        ranks=tuple(_rank(_is(dict, rank, "ranks")) for rank in _items(message, "ranks")),
    )


def _rank(rank: Mapping[str, Any]) -> RankSeen:
    pools = (_is(list, pool, "pools") for pool in _items(rank, "pools"))
    return RankSeen(
        rank=_count(rank, "rank"),
        pid=_count(rank, "pid"),
        blas_threads=_or_none(rank, "blas_threads"),
        opencv_threads=_or_none(rank, "opencv_threads"),
        pools=tuple(_pool(pool) for pool in pools),
        affinity=tuple(_number(cpu, "affinity") for cpu in _items(rank, "affinity")),
        values=_mapping(rank, "values"),
        errors=tuple(one_line(str(error)) for error in _items(rank, "errors")),
        allocator=one_line(name) if isinstance(name := rank.get("allocator"), str) else None,
    )


def _refused(message: Mapping[str, Any]) -> Message:
    raise WireError(one_line(str(message.get("why"))))


def _pool(pool: list[Any]) -> tuple[str, int]:
    if len(pool) != 2 or not isinstance(pool[0], str):
        raise _wrong("pools", pool)
    return one_line("/".join(pool[0].split("/")[-2:]), _LONGEST), _number(pool[1], "pools")


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "hello": _hello,
    "steps": _steps,
    "switched": _switched,
    "refused": _refused,
    "over": lambda message: Over(_count(message, "iterations")),
    "end": lambda message: End(_count(message, "iterations")),
}


# --- fields ------------------------------------------------------------------------------


def _wrong(name: str, value: object) -> WireError:
    return WireError(f"it sent {name} {shown(value)}")


def _is(kind: type[_T], value: object, name: str) -> _T:
    if not isinstance(value, kind):
        raise _wrong(name, value)
    return value


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_COUNT:
        raise _wrong(name, value)
    return value


def _count(message: Mapping[str, Any], name: str) -> int:
    return _number(message.get(name), name)


def _or_none(message: Mapping[str, Any], name: str) -> int | None:
    return None if message.get(name) is None else _count(message, name)


def _seconds(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, value)
    if not 0 <= value <= _MOST_COUNT:  # nor is NaN
        raise _wrong(name, value)
    return float(value)


def _items(message: Mapping[str, Any], name: str) -> list[Any]:
    found = _is(list, message.get(name, []), name)
    if len(found) > _MOST_ITEMS:
        raise WireError(f"it sent {len(found)} {name}")
    return found


def _mapping(message: Mapping[str, Any], name: str) -> dict[str, Value | None]:
    """Values by knob; whatever is no value is not known."""
    found = _is(dict, message.get(name, {}), name)
    if len(found) > _MOST_ITEMS:
        raise WireError(f"it sent {len(found)} {name}")
    return {one_line(str(knob), _LONGEST): _value(value) for knob, value in sorted(found.items())}


def _value(value: object) -> Value | None:
    if isinstance(value, str):
        return one_line(value, _LONGEST)
    if isinstance(value, float):  # that of a library, or what stands for a text like 0.5
        return int(value) if value.is_integer() and abs(value) <= _MOST_COUNT else repr(value)
    return value if type(value) is int and abs(value) <= _MOST_COUNT else None
