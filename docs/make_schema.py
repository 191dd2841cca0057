"""Makes docs/schema.json, a JSON Schema of what `tune` writes, of the classes of json_documents."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal

from json_documents import DOCUMENTS, LIKE, STANDS_FOR
from tuner.model import Setting

JsonSchema = dict[str, Any]

#: The schema of each class that was met, by its name.
_definitions: dict[str, JsonSchema] = {}

_PLAIN = {int: "integer", str: "string", float: "number", bool: "boolean", types.NoneType: "null"}


def schema() -> str:
    """Return the schema of all documents; the key `schema` of a document says which part holds."""
    branches = []
    for document in DOCUMENTS:
        has_name = {"properties": {"schema": _schema(typing.get_type_hints(document)["schema"])}}
        branches.append({"if": has_name, "then": _schema(document)})
    names = [branch["if"]["properties"]["schema"]["const"] for branch in branches]
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What tune writes as JSON",
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": {"enum": names}},
        "allOf": branches,
        "$defs": dict(sorted(_definitions.items())),
    }
    return json.dumps(whole, indent=1) + "\n"


def _schema(kind: Any) -> JsonSchema:  # noqa: PLR0911
    """Return the schema of what is written for an annotation."""
    kind = STANDS_FOR.get(kind, kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return {}
    if kind is Setting:
        values = {"type": ["integer", "string"]}
        return {"type": "object", "additionalProperties": values, "description": "knob: value"}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin in {typing.Union, types.UnionType}:
        members = [_schema(part) for part in parts]
        if all(member.keys() == {"type"} for member in members):
            return {"type": [member["type"] for member in members]}
        return {"anyOf": members}
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin is tuple and Ellipsis not in parts:
        items = [_schema(part) for part in parts]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(parts[1])}
    if origin is not None and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema(parts[0])}
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return _reference(kind)


def _reference(kind: type) -> JsonSchema:
    """Define an object by the fields of a class, all of which are always there."""
    if kind.__name__ not in _definitions:
        _definitions[kind.__name__] = {}  # a class may hold itself
        properties = {}
        for name, (annotation, text) in _fields(kind).items():
            description = {"description": text} if text else {}
            properties[name] = _schema(annotation) | description
        _definitions[kind.__name__] = {
            "description": " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split()),
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _fields(kind: type) -> dict[str, tuple[Any, str]]:
    """Return the annotation of each field and the comment beside it."""
    others, without = LIKE.get(kind, ((), ()))
    fields = {name: field for other in others for name, field in _fields(other).items()}
    fields = {name: field for name, field in fields.items() if name not in without}
    comments: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        source = inspect.getsource(part)
        comments |= dict(re.findall(r"(?m)^    (\w+): [^\n#]*?(?:  # ([^\n]*))?$", source))
    for name, annotation in typing.get_type_hints(kind).items():
        fields[name] = (annotation, comments.get(name, "") or fields.get(name, ("", ""))[1])
    return fields
