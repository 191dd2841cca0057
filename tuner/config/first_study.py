"""A study file out of a command as it is typed today and what its ``--help`` lists (pure)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.knobs import domains
from tuner.launch.command import OUT

#: A line of a help text that begins with options: their names and what they take. That may stand
#: apart, in capitals (typer); absl has a colon after the name.
_ENTRY = re.compile(r"[\s│|*]*(--?[A-Za-z].*?)(\s{2,}+(?![A-Z]{3,}\s|<(?!bool)|-\w\s)|:\s|:?$)")
_NAME = re.compile(r"(?<![\w.-])--?[A-Za-z][\w.-]*")

#: The names of options, without dashes, whose value ``tune`` can set, by the placeholder.
_OPTIONS = {
    OUT: "out output result outdir out-dir output-dir save-dir log-dir logdir work-dir"
    " checkpoint-dir checkpoints-dir ckpt-dir o",
    "iterator_workers": "workers num-workers n-workers iterator-workers loaderjob"
    " dataloader-num-workers j",
    "prefetch": "prefetch prefetch-factor n-prefetch dataloader-prefetch-factor",
    "start_method": "start-method",
    "communicator": "communicator",
}
#: Names of an option that often takes a file, not a folder.
_FILES_TOO = ("o", "output", "result")
_PLACEHOLDERS = {name: key for key, names in _OPTIONS.items() for name in names.split()}


def proposals(text: str) -> dict[str, list[str]]:
    """Return the names of the options in a help text that ``tune`` could set, by placeholder."""
    names_by_placeholder: dict[str, list[str]] = {}
    for entry in filter(None, (_ENTRY.match(line[:200]) for line in text.splitlines())):
        names = _NAME.findall(entry[1])
        has_value = entry[2][:1] == ":" or entry[1].rpartition(names[-1])[2].strip(" ,=")
        names.sort(key=lambda name: name[:2] != "--")  # the long ones first
        placeholder = _PLACEHOLDERS.get(re.sub(r".*[.]|^-*", "", names[0]).replace("_", "-"))
        if has_value and placeholder:
            names_by_placeholder.setdefault(placeholder, names)
    return names_by_placeholder


def options_in(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of a typed program whose names tell what they are, by placeholder.

    These are folders of its output, and numbers of loader workers and of batches ahead.
    """
    options: dict[str, list[str]] = {}
    for index, word in enumerate(words):
        name, is_set, value = word.partition("=")
        value = value if is_set else "".join(words[index + 1 : index + 2])
        placeholder = _PLACEHOLDERS.get(name.lstrip("-").replace("_", "-"), "")
        is_number = placeholder in ("iterator_workers", "prefetch") and value.isdecimal()
        is_folder = placeholder == OUT and name.lstrip("-") not in _FILES_TOO
        if name.startswith("-") and (is_number or is_folder):
            options.setdefault(placeholder, []).append(name)
    return options


def has_option(words: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a command has an option of one of these names."""
    return any(word.partition("=")[0] in names for word in words)


def with_option(
    words: Sequence[str], names: Sequence[str], value: str
) -> tuple[tuple[str, ...], str]:
    """Return a command with a value for the options of these names in it, and the last one before.

    Without such an option the command stays as it is.
    """
    result, before = [*words], ""
    for index, word in enumerate(words):
        option, is_set, old = word.partition("=")
        if option in names and is_set:
            result[index], before = f"{option}={value}", old
        elif word in names:
            before = "".join(words[index + 1 : index + 2])
            result[index + 1 : index + 2] = [value]
    return tuple(result), before


def with_placeholders(
    command: Sequence[str], options: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
    """Return a command with placeholders for ``options``, and the knobs' tables of a study file.

    A value of such an option in the command becomes that of the baseline.
    """
    words, knobs = tuple(command), dict[str, dict[str, Any]]()
    for placeholder, names in options.items():
        mark = f"{{{placeholder}}}"
        if not has_option(words, names):
            words = (*words, names[0], "")
        words, value = with_option(words, names, mark)
        if placeholder != OUT:
            is_known = value and value != mark
            knobs[placeholder] = {"baseline": domains.parse_value(value)} if is_known else {}
    return words, knobs


def study_text(
    keys: Mapping[str, Any],
    command: Sequence[str],
    options: Mapping[str, Sequence[str]],
    objective: str,
) -> str:
    """Return a study file of a command with placeholders for ``options`` (of :func:`proposals`)."""
    words, knobs = with_placeholders(command, options)
    tables = "".join(f"\n[knobs.{name}]\n{_toml(table)}" for name, table in knobs.items())
    line = re.sub(r"'(\{\w+\})'", r"\1", shlex.join(words))
    text = Path(__file__).with_suffix(".toml").read_text()
    return text.format(json.dumps(line, ensure_ascii=False), _toml(keys), objective) + tables


def _toml(keys: Mapping[str, Any]) -> str:
    return "".join(f"{k} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in keys.items())
