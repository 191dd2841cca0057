"""Whether a value that was read back has the types that its class names (pure).

:mod:`tuner.store.codec` takes plain values as they are: quick, and enough for what a database
gives back. A file that somebody may have changed is looked at more closely.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

#: What a database holds as a whole number.
_MOST = 2**63


def fits(kind: Any, value: Any) -> bool:
    """True where the value, and all that is in it, is what the annotation says."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return any(fits(part, value) for part in parts)
    if origin is typing.Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and _all_fit(parts, value)
    if origin is not None:  # dict[str, Any], Mapping[str, str]
        return isinstance(value, Mapping) and all(
            fits(parts[0], key) and fits(parts[1], inner) for key, inner in value.items()
        )
    return _is_plain(kind, value)


def _is_plain(kind: Any, value: Any) -> bool:
    """The same of an annotation without parts: a class, or ``Any``."""
    if kind is Any:
        return True
    if kind is float and type(value) is float:
        return not math.isnan(value)
    if kind in {int, float}:
        return type(value) is int and -_MOST <= value < _MOST
    key: Any = kind
    return isinstance(value, kind) and (
        not dataclasses.is_dataclass(kind)
        or all(fits(hint, getattr(value, name)) for name, hint in _hints(key).items())
    )


def _all_fit(parts: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(fits(parts[0], each) for each in values)
    return len(parts) == len(values) and all(map(fits, parts, values))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name in names}
