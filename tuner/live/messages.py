"""The messages between the tool and rank 0 of a running job: JSON lines, version 2.

Rank 0 is a process that runs the user's program: everything it sends is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from tuner.model import Value
from tuner.model.errors import shown
from tuner.model.wording import one_line

PROTOCOL = 2

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
    """The first line: the job can be switched.

    ``can`` has the knobs that can be changed, each with its present value (``None``: not
    known); ``iteration`` is the number of the one that begins.
    """

    ranks: Count
    pid: Count
    hook: Name
    can: Values
    iteration: Count
    type: Literal["hello"] = "hello"


@dataclass(frozen=True)
class Steps:
    """How long iterations took, from ``first`` on, s; those in ``marks`` had something else in
    them (an evaluation, the start of an epoch)."""

    first: Count
    times_s: Annotated[tuple[Seconds, ...], Field(alias="s", max_length=_MOST_ITEMS)]
    marks: Annotated[frozenset[Count], _Items] = frozenset()
    type: Literal["steps"] = "steps"


@dataclass(frozen=True)
class RankState:
    """What a rank read back after a switch; ``errors`` has a reason by the knob that failed."""

    rank: Count
    pid: Count
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
    took_s: Seconds
    ranks: Annotated[tuple[RankState, ...], _Items]
    type: Literal["switched"] = "switched"


@dataclass(frozen=True)
class Over:
    """The program is at its own end, and waits for an order before it goes on.

    It has made so many ``iterations``.
    """

    iterations: Count
    type: Literal["over"] = "over"


@dataclass(frozen=True)
class End:
    """The program ends, with so many ``iterations``."""

    iterations: Count
    type: Literal["end"] = "end"


Message = Hello | Steps | Switched | Over | End

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def switch(number: int, values: Mapping[str, Value | None]) -> bytes:
    """The order to change to these values; ``None``: as the job was started."""
    return json.dumps({"type": "switch", "number": number, "values": dict(values)}).encode() + b"\n"


def parse(line: bytes) -> Message | None:
    """A line from rank 0; ``None`` for a type that this version does not know.

    Raises:
        WireError: It is no line of the protocol.
    """
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError("it sent a line that is no JSON") from error
    if not isinstance(fields, dict):
        raise WireError("it sent a line that is no JSON object")
    if fields.get("type") == "hello" and fields.get("protocol") != PROTOCOL:
        protocol = shown(fields.get("protocol"))
        raise WireError(f"it speaks version {protocol} of the protocol, not {PROTOCOL}")
    try:
        message = _ADAPTER.validate_python(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            return None
        name = next(str(part) for part in reversed(first["loc"]) if isinstance(part, str))
        what = "nothing" if first["type"] == "missing" else shown(first["input"])
        raise WireError(f"it sent {one_line(name, 60)} {what}") from error
    return message
