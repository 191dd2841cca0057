"""The file formats of a log: a JSON list, JSON lines, YAML (pure)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tuner.model import JsonDict
from tuner.model.wording import one_line

#: Of what a parser says of a log so many letters are a reason: it quotes the log.
LONGEST_FAULT = 400

#: What ``yaml.safe_load`` raises beside YAMLError, for tagged scalars that are malformed.
_YAML_QUIRKS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


class BadLogError(Exception):
    """The log cannot be used; the message says why, without the file's name."""


def parse(data: bytes, suffix: str = "") -> list[JsonDict]:
    """The entries of a log, told apart by the file's suffix, else by its content.

    Raises:
        BadLogError: Empty, truncated, or not a log at all.
    """
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise BadLogError(f"is not text (byte {error.start} is not UTF-8)") from None
    if not text:
        raise BadLogError("is empty")
    try:
        entries = _reader(text, suffix)(text)
    except RecursionError:
        raise BadLogError("is not a LogReport: it is nested too deeply") from None
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise BadLogError("is not a LogReport: it is not a list of entries")
    if not entries:
        raise BadLogError("has no entries")
    return entries


def _reader(text: str, suffix: str) -> Callable[[str], Any]:
    if suffix == ".jsonl" or (suffix not in {".yaml", ".yml", ".json"} and text.startswith("{")):
        return lambda lines: [_json(line) for line in lines.split("\n") if line.strip()]
    if suffix in {".yaml", ".yml"} or (suffix != ".json" and text.startswith("-")):
        return _yaml
    return _json


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        # A log cut short begins like one and ends where the parser wanted more.
        open_ended = "Unterminated" in error.msg or error.pos >= len(text.rstrip()) - 1
        cut = open_ended and text.lstrip().startswith(("[", "{"))
        fault = "is truncated" if cut else "is not a LogReport"
        raise BadLogError(f"{fault}: {error}") from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise BadLogError(f"is not a LogReport: {error}") from None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        fault = one_line(" ".join(str(error).split()), LONGEST_FAULT)
        raise BadLogError(f"is truncated or not YAML: {fault}") from None
    except _YAML_QUIRKS as error:
        fault = one_line(f"{type(error).__name__}: {error}", LONGEST_FAULT)
        raise BadLogError(f"is not a LogReport: {fault}") from None
