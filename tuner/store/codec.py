"""The nouns as JSON and back.

Classes that share a place (``IntRange | Choice``) carry their name under ``"type"``. A field
that an older ``tune`` did not know takes its default, so that fields can be added.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from tuner.model import (
    Choice,
    Env,
    Failed,
    Finished,
    Flag,
    IntRange,
    LauncherOption,
    Stopped,
)

T = TypeVar("T")

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
    """The inverse of :func:`to_json`; raises as :func:`loads`."""
    try:
        return typing.cast(T, _decoder(typing.cast(Any, kind))(data))
    except OverflowError as error:  # a whole number that is no float
        raise ValueError(f"no value of {kind}: {error}") from error


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
def _decoder(kind: Any) -> Decoder:
    """How a value of this annotation is read; made once per annotation."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_decoder(kind)
    origin = typing.get_origin(kind)
    if origin in {typing.Union, types.UnionType}:
        return _union_decoder(typing.get_args(kind))
    if origin is tuple:
        return _tuple_decoder(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if kind is float:
        return float
    return _same  # int, str, bool, None, Mapping


def _same(value: Any) -> Any:
    return value


def _dataclass_decoder(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    names = frozenset(field.name for field in dataclasses.fields(kind))
    readers = [(name, _decoder(hints[name])) for name in names]
    readers = [(name, read) for name, read in readers if read is not _same]

    def decode(data: Any) -> Any:
        if not isinstance(data, dict):
            raise TypeError(f"{data!r} is no {kind.__name__}")
        values = data if data.keys() <= names else {k: v for k, v in data.items() if k in names}
        changed = {name: read(values[name]) for name, read in readers if name in values}
        return kind(**{**values, **changed})

    return decode


def _tuple_decoder(parts: tuple[Any, ...]) -> Decoder:
    if len(parts) == 2 and parts[1] is Ellipsis:
        each = _decoder(parts[0])
        if each is _same:
            return tuple
        return lambda data: tuple(each(inner) for inner in data)
    readers = tuple(_decoder(part) for part in parts)
    return lambda data: tuple(read(x) for read, x in zip(readers, data, strict=True))


def _union_decoder(parts: tuple[Any, ...]) -> Decoder:
    classes = {part.__name__: _decoder(part) for part in parts if part in TAGGED}
    plain = {int, str, float, bool, type(None), *TAGGED}
    others = [part for part in parts if part not in plain]
    inner = _decoder(others[0]) if len(others) == 1 else _same
    if not classes and inner is _same:
        return _same

    def decode(data: Any) -> Any:
        if isinstance(data, dict) and "type" in data:
            return classes[data["type"]](data)
        return data if data is None else inner(data)

    return decode
