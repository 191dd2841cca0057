"""The nouns as JSON and back.

Classes that share a place (``IntRange | Choice``) carry their name under ``"type"``. A field that
is missing takes its default. What is read must have the types that its class names: a file or an
attribute may have been changed by somebody.

Pydantic would do this, but its JSON reader refuses lone surrogates, which the name of a file may
hold, and its other modes either refuse lists for tuples or turn texts into numbers.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, Literal, TypeVar

from tuner.model import Choice, Env, Failed, Finished, Flag, IntRange, LauncherOption, Stopped
from tuner.model.errors import shown

T = TypeVar("T")

#: A whole number of a database is between this and its negative.
MOST = 2**63

#: Members of unions: what a JSON object is cannot be told from its place alone.
TAGGED = (IntRange, Choice, Env, Flag, LauncherOption, Finished, Stopped, Failed)


def dumps(value: Any) -> str:
    """The value as compact JSON; non-ASCII characters are escaped, lone surrogates too."""
    return json.dumps(to_json(value), separators=(",", ":"))


def loads(kind: type[T], text: str) -> T:
    """The inverse of :func:`dumps`.

    Raises:
        ValueError, KeyError, TypeError: The text is not such a value.
    """
    try:
        return from_json(kind, json.loads(text))
    except RecursionError as error:
        raise ValueError(f"no value of {kind}: {error}") from error


def from_json(kind: type[T], data: Any) -> T:
    """The inverse of :func:`to_json`, which leaves objects as they are; raises as :func:`loads`."""
    return typing.cast(T, _decoder(typing.cast(Any, kind))(data))


def to_json(value: Any) -> Any:
    """The value as dicts, lists and plain values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields} if isinstance(value, TAGGED) else fields
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value


Decoder = Callable[[Any], Any]


@cache
def _decoder(kind: Any) -> Decoder:  # noqa: PLR0911
    """How a value of this annotation is read; made once per annotation."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_decoder(kind)
    if origin in {typing.Union, types.UnionType}:
        return _union_decoder(parts)
    if origin is tuple:
        return _tuple_decoder(parts)
    if origin is Literal:
        return lambda data: parts[parts.index(data)]
    if origin is not None:
        return _mapping_decoder(*map(_decoder, parts))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return {float: _float, int: _int, Any: lambda data: data}.get(kind) or partial(
        _of, kind, kind.__name__
    )


def _float(data: Any) -> float:
    if type(data) is float and not math.isnan(data):
        return data
    return float(_int(data))


def _int(data: Any) -> int:
    if type(data) is not int or not -MOST <= data < MOST:
        raise TypeError(f"{shown(data)} is not a number")
    return data


def _of(kind: type[T] | tuple[type[T], ...], name: str, data: Any) -> T:
    """What is read, once it is of this kind."""
    if not isinstance(data, kind) or (kind is not bool and isinstance(data, bool)):
        raise TypeError(f"{shown(data)} is no {name}")
    return data


def _dataclass_decoder(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    readers = [(field.name, _decoder(hints[field.name])) for field in dataclasses.fields(kind)]

    def decode(data: Any) -> Any:
        if isinstance(data, kind):
            return data
        table = _of(dict, kind.__name__, data)
        return kind(**{name: read(table[name]) for name, read in readers if name in table})

    return decode


def _tuple_decoder(parts: tuple[Any, ...]) -> Decoder:
    readers = tuple(_decoder(part) for part in parts if part is not Ellipsis)
    if Ellipsis in parts:
        return lambda data: tuple([readers[0](inner) for inner in _of((list, tuple), "list", data)])

    def decode(data: Any) -> Any:
        inners = _of((list, tuple), "list", data)
        return tuple([read(inner) for read, inner in zip(readers, inners, strict=True)])

    return decode


def _mapping_decoder(key: Decoder, value: Decoder) -> Decoder:
    return lambda data: {
        key(name): value(inner) for name, inner in _of(dict, "table", data).items()
    }


def _union_decoder(parts: tuple[Any, ...]) -> Decoder:
    """By the type of what is read; of all but the tagged classes each type has one member."""
    tagged = {part.__name__: _decoder(part) for part in parts if part in TAGGED}
    plain = {part: _decoder(part) for part in parts if part in {int, str, float, type(None)}}
    if float in plain:
        plain.setdefault(int, _float)
    others = [_decoder(part) for part in parts if part not in {*plain, *TAGGED}]

    def decode(data: Any) -> Any:
        if type(data) in plain:
            return plain[type(data)](data)
        if isinstance(data, dict) and tagged:
            return tagged[data["type"]](data)
        if isinstance(data, TAGGED) and type(data).__name__ in tagged:
            return data
        for read in others:
            return read(data)
        raise TypeError(f"{shown(data)} has no place here")

    return decode
