"""Every mistake of a study file, each in one line that begins with its place."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tuner import knobs as table
from tuner.config.study_file.kinds import words
from tuner.config.study_file.schema import KnobEntry, ObjectiveEntry, StudyFile
from tuner.knobs import domains
from tuner.launch.command import RESERVED, knobs_in
from tuner.launch.objectives import objective_for
from tuner.model import OFF, ON, Choice
from tuner.model.errors import UsageError, nearest, shown, suggestion

T = TypeVar("T", bound=BaseModel)


def _validate(kind: type[T], data: object) -> tuple[list[ErrorDetails], T | None]:
    try:
        return [], kind.model_validate(data)
    except ValidationError as error:
        return error.errors(), None


def check(data: dict[str, Any]) -> tuple[list[str], StudyFile | None]:
    """(mistakes, model): wrong keys and types first, then what the values mean, each once.

    What stands under a misspelt key is looked at as if the key were right, so that the next
    mistake does not wait for the repair of this one.
    """
    errors, model = _validate(StudyFile, data)
    mistakes = [_in_words(error) for error in errors] + _nul_mistakes(data)
    meant = _mended(data, _KEYS[""])
    placed = _placeholders_of(meant.get("command"))
    entries = meant.get("knobs")
    for name, raw in entries.items() if isinstance(entries, dict) else ():
        if isinstance(raw, dict):
            mistakes += _knob_mistakes(name, _mended(raw, _KEYS["knobs"]), placed)
    mistakes += _objective_mistakes(meant) + _left_out_mistakes(meant)
    return list(dict.fromkeys(mistakes)), model


#: The keys that each table knows, by the table's name; the file itself has none.
_KEYS = {
    "": tuple(StudyFile.model_fields),
    "knobs": tuple(KnobEntry.model_fields),
    "objective": tuple(ObjectiveEntry.model_fields),
}


def _in_words(error: ErrorDetails) -> str:
    """One of pydantic's errors in the words of this tool, with its place."""
    place = ".".join(str(part) for part in error["loc"])
    given = error["input"]
    kind = error["type"]
    bound = error.get("ctx", {})
    if kind == "extra_forbidden":
        keys = _KEYS[str(error["loc"][0]) if len(error["loc"]) > 1 else ""]
        return f"{place}: unknown key. {suggestion(str(error['loc'][-1]), keys)}"
    texts = {
        "int_type": f"must be a whole number, is {shown(given)}",
        "bool_type": f"must be true or false, is {shown(given)}",
        "string_type": f"must be a string, is {shown(given)}",
        "string_too_short": "must not be empty",
        "dict_type": f"must be a table, is {shown(given)}",
        "model_type": f"must be a table, is {shown(given)}",
        "greater_than_equal": f"must be at least {bound.get('ge')}, is {shown(given)}",
        "less_than": f"must be below {bound.get('lt')}, is {shown(given)}",
    }
    named = given if isinstance(given, str) else None  # the message may hold it already
    says = named is not None and repr(named) in error["msg"]
    other = str(error["msg"]) if says else f"{error['msg']}, is {shown(given)}"
    return f"{place}: {texts.get(kind, other)}."


def _mended(table: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """The table with each unknown key under the nearest known one that is not there."""
    mended = {key: value for key, value in table.items() if key in keys}
    for key, value in table.items():
        near = nearest(key, keys)
        if key not in keys and near is not None:
            mended.setdefault(near, value)
    return mended


def _objective_mistakes(meant: dict[str, Any]) -> list[str]:
    entry = meant.get("objective")
    if not isinstance(entry, dict):
        return []  # not given, or of a wrong type, which was said
    mended = _mended(entry, _KEYS["objective"])
    errors, model = _validate(ObjectiveEntry, mended)
    if model is None:
        model = ObjectiveEntry.model_validate(
            _without(mended, {str(error["loc"][0]) for error in errors})
        )
    try:
        objective_for(model.spec())
    except UsageError as error:
        return [f"objective: {error.message.rstrip('.')}. {error.hint}"]
    return []


def _nul_mistakes(value: object, place: str = "") -> list[str]:
    """Every text with a character that no argument or variable can hold."""
    if isinstance(value, str) and "\0" in value:
        return [f"{place}: holds a NUL character, which no command can be given."]
    if isinstance(value, dict):
        inner = [(f"{place}.{key}" if place else key, each) for key, each in value.items()]
    else:
        inner = [(place, each) for each in value] if isinstance(value, list) else []
    return [mistake for where, each in inner for mistake in _nul_mistakes(each, where)]


def _placeholders_of(raw: object) -> tuple[str, ...] | None:
    """The knobs in the file's command; ``None`` where it has no usable command."""
    try:
        return knobs_in(words(raw))
    except PydanticCustomError:
        return None


_DOMAIN_KEYS = ("range", "values", "fix")
_ROUTE_KEYS = ("env", "flag", "switch", "launcher_option")


def _usable(raw: dict[str, Any]) -> tuple[KnobEntry, set[str]]:
    """The entry without the keys whose values have the wrong form; those keys."""
    errors, entry = _validate(KnobEntry, raw)
    wrong = {str(error["loc"][0]) for error in errors}
    return entry or KnobEntry.model_validate(_without(raw, wrong)), wrong


def _without(table: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in keys}


def _knob_mistakes(name: str, raw: dict[str, Any], placed: tuple[str, ...] | None) -> list[str]:
    """What is wrong with the meaning of an entry; its form is judged elsewhere."""
    where = f"knobs.{name}"
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in RESERVED:
        return [f"{where}: cannot be the name of a knob."]
    entry, wrong = _usable(raw)
    mistakes = []
    for keys in (_DOMAIN_KEYS, _ROUTE_KEYS):
        given = [key for key in keys if getattr(entry, key) is not None]
        if len(given) > 1:
            mistakes.append(f"{where}: has {' and '.join(given)}: keep one of them.")
    if mistakes:
        return mistakes
    routed = table.is_known(name) or entry.route() is not None or not wrong.isdisjoint(_ROUTE_KEYS)
    if not routed and placed is not None and name not in placed:
        mistakes.append(
            f"{where}: nothing carries it to the program: "
            f"{suggestion(name, table.names())} A knob of your own needs env, flag, "
            f"switch, launcher_option, or {{{name}}} in the command."
        )
    if entry.switch is not None and not _is_switch(entry):
        mistakes.append(f"{where}: a switch has the values on and off.")
    empty = all(getattr(entry, key) is None for key in _DOMAIN_KEYS)
    if empty and (mistakes or not wrong.isdisjoint(_DOMAIN_KEYS)):
        return mistakes
    return mistakes + _domain_mistakes(name, entry, where)


def _is_switch(entry: KnobEntry) -> bool:
    values = (entry.fix,) if entry.fix is not None else entry.values or ()
    return entry.range is None and set(values) <= {ON, OFF}


def _domain_mistakes(name: str, entry: KnobEntry, where: str) -> list[str]:
    known = table.is_known(name)
    try:
        knob = entry.knob(name, where)
        if known and entry.values is None:
            domains.check_against(table.knob(name), knob.domain, where=where)
        elif known and not isinstance(table.knob(name).domain, Choice):
            domains.check_against(table.knob(name), knob.domain, where=f"{where}.values")
    except UsageError as error:
        return [f"{error.message} {error.hint}".strip()]
    return []


def _left_out_mistakes(data: dict[str, Any]) -> list[str]:
    left_out, entries = data.get("left_out"), data.get("knobs")
    if not isinstance(left_out, dict):
        return []
    mistakes = []
    for name in left_out:
        if isinstance(entries, dict) and name in entries:
            mistakes.append(f"left_out.{name}: stands under knobs as well: keep one of them.")
        elif not table.is_known(name):
            hint = suggestion(name, table.names())
            mistakes.append(f"left_out.{name}: there is no such knob. {hint}")
    return mistakes
