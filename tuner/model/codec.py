"""Writes the nouns as JSON, and reads them back.

Classes that share a place (``IntRange | Choice``) carry their name under ``"type"``. A field that
is missing takes its default. All values must have the types that their class names: somebody may
have changed a file or an attribute.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar

from tuner.model import (
    Choice,
    Env,
    Failed,
    Finished,
    Flag,
    IntRange,
    LauncherOption,
    Prefix,
    RankCount,
    Stopped,
)
from tuner.model.errors import shown

T = TypeVar("T")

#: A whole number that a database can hold is between this and its negative.
MOST = 2**63

#: Members of unions: their JSON objects name the class, as their place alone does not tell it.
TAGGED = (
    *(IntRange, Choice, Env, Flag, LauncherOption, Prefix, RankCount),
    *(Finished, Stopped, Failed),
)


def dumps(value: Any) -> str:
    """Return the value as compact JSON; non-ASCII characters are escaped, lone surrogates too."""
    return json.dumps(to_json(value), separators=(",", ":"))


def loads(kind: type[T], text: str) -> T:
    """Return the inverse of :func:`dumps`.

    A text that is no such value is a ``ValueError``, a ``KeyError`` or a ``TypeError``.
    """
    try:
        return from_json(kind, json.loads(text))
    except RecursionError as error:
        raise ValueError(f"no value of {kind}: {error}") from error


def from_json(kind: type[T], data: Any) -> T:
    """Return the inverse of :func:`to_json`; for the errors see :func:`loads`."""
    return typing.cast(T, _decoder(typing.cast(Any, kind))(data))


def to_json(value: Any) -> Any:
    """Return the value as dicts, lists and plain values."""
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
    """Return the function that reads a value of this annotation, made once per annotation."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        readers = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(kind)}

        def decode(data: Any) -> Any:
            table = _checked(dict, data)
            return kind(**{n: read(table[n]) for n, read in readers.items() if n in table})

        return decode
    if origin in {typing.Union, types.UnionType}:
        return _union_decoder(parts)
    if origin is tuple:
        return _tuple_decoder(parts)
    if origin is Literal:
        return lambda data: parts[parts.index(data)]
    if origin is not None:
        key, value = map(_decoder, parts)
        return lambda data: {key(k): value(v) for k, v in _checked(dict, data).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    plain = {float: _float, int: _int, Any: lambda data: data}
    return plain.get(kind) or (lambda data: _checked(kind, data))


def _checked(kind: type, data: Any) -> Any:
    """Return the data itself if it is of this very type; a ``TypeError`` otherwise."""
    if type(data) is not kind:
        raise TypeError(f"{shown(data)} is no {kind.__name__}")
    return data


def _float(data: Any) -> float:
    return data if type(data) is float and not math.isnan(data) else float(_int(data))


def _int(data: Any) -> int:
    if type(data) is not int or not -MOST <= data < MOST:
        raise TypeError(f"{shown(data)} is not a number")
    return data


def _tuple_decoder(parts: tuple[Any, ...]) -> Decoder:
    readers = [_decoder(part) for part in parts if part is not Ellipsis]
    if Ellipsis in parts:
        return lambda data: tuple([readers[0](inner) for inner in _checked(list, data)])

    def decode(data: Any) -> Any:
        pairs = zip(readers, _checked(list, data), strict=True)
        return tuple([read(inner) for read, inner in pairs])

    return decode


def _union_decoder(parts: tuple[Any, ...]) -> Decoder:
    """Return a decoder that goes by the type in JSON, which only tagged members may share."""
    tagged = {part.__name__: _decoder(part) for part in parts if part in TAGGED}
    by_type: dict[type, Decoder] = {dict: lambda data: tagged[data["type"]](data)}
    for part in set(parts) - {*TAGGED}:
        is_plain = part in {int, str, float, bool, types.NoneType}
        json_type = part if is_plain else list if typing.get_origin(part) is tuple else dict
        json_type = str if isinstance(part, type) and issubclass(part, Enum) else json_type
        by_type[json_type] = _decoder(part)
    if float in by_type:
        by_type.setdefault(int, _float)

    def decode(data: Any) -> Any:
        if type(data) not in by_type:
            raise TypeError(f"{shown(data)} has no place here")
        return by_type[type(data)](data)

    return decode
