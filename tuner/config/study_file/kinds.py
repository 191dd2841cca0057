"""The kinds of values in a study file: words, names, values of knobs, times, shares, numbers.

Each is a type for pydantic's models; what is none of its kind is said in the file's own terms.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from tuner.knobs.domains import MAX_INT
from tuner.model import Value
from tuner.model.units import parse_share, parse_time_s

#: More than any figure that is asked for; a longer integer may be no float.
MOST = 1e15


def words(value: object) -> tuple[str, ...]:
    """A command: a list of words, or one string split as a shell would."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise PydanticCustomError("words", "a quotation is not closed") from error
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise PydanticCustomError("words", "must be a string or a list of strings")


def _names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        bad = [name for name in names if not re.fullmatch(r"[A-Za-z_]\w*", name)]
        if not bad:
            return tuple(names)
        raise PydanticCustomError("names", f"{bad[0]!r} is not the name of a variable")
    raise PydanticCustomError("names", "must be a name or a list of names")


def _value(value: object) -> Value:
    if isinstance(value, str):
        return value
    if type(value) is not int:
        raise PydanticCustomError("value", "must be a whole number or a string")
    if abs(value) > MAX_INT:
        raise PydanticCustomError("value", "must be a whole number of up to 15 digits, or a string")
    return value


def _values(value: object) -> tuple[Value, ...]:
    if isinstance(value, list):
        return tuple(_value(item) for item in value)
    raise PydanticCustomError("values", "must be a list of whole numbers or strings")


def _conditions(value: object) -> dict[str, tuple[Value, ...]]:
    """Per knob the values with which the entry's own exists."""
    if isinstance(value, dict):
        if [] in value.values():
            raise PydanticCustomError("when", "must name at least one value of each knob")
        return {
            str(name): _values(listed if isinstance(listed, list) else [listed])
            for name, listed in value.items()
        }
    raise PydanticCustomError("when", "must be a table of knobs, each with its values")


def _seconds(value: object) -> float:
    """``90``, ``1.5`` or ``"90s"``, ``"2m"``, ``"1h"``, in seconds."""
    try:
        return parse_time_s("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        message = 'must be a time above 0, such as 90, "90s" or "2m"'
        raise PydanticCustomError("seconds", message) from error


def _limit(value: object) -> float:
    """A time, or ``"none"``: infinity."""
    return math.inf if value == "none" else _seconds(value)


def _share(value: object) -> float:
    """``"2%"`` as 0.02."""
    try:
        return parse_share(value if isinstance(value, str) else "")
    except ValueError as error:
        message = 'must be a percentage between 0 % and 100 %, such as "2%"'
        raise PydanticCustomError("share", message) from error


def _number(value: object) -> float:
    """A finite number of at least 1."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST:
        return float(value)
    raise PydanticCustomError("number", "must be a number of at least 1")


def _amount(value: object) -> float:
    """A finite number above 0."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST:
        return float(value)
    raise PydanticCustomError("amount", "must be a number above 0")


Words = Annotated[tuple[str, ...], BeforeValidator(words)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
AnyValue = Annotated[Any, BeforeValidator(_value)]
When = Annotated[dict[str, Any], BeforeValidator(_conditions)]
Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
SecondsOrNone = Annotated[float, BeforeValidator(_limit)]
Share = Annotated[float, BeforeValidator(_share)]
Amount = Annotated[float, BeforeValidator(_amount)]
Number = Annotated[float, BeforeValidator(_number)]
