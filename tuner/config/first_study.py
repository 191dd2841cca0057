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
    OUT: "out output result outdir out-dir output-dir save-dir log-dir o",
    "iterator_workers": "workers num-workers n-workers iterator-workers loaderjob"
    " dataloader-num-workers j",
    "prefetch": "prefetch prefetch-factor n-prefetch dataloader-prefetch-factor",
    "start_method": "start-method",
    "communicator": "communicator",
}
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


def study_text(
    keys: Mapping[str, Any],
    command: Sequence[str],
    options: Mapping[str, Sequence[str]],
    objective: str,
) -> str:
    """Return a study file of a command with placeholders for ``options`` (of :func:`proposals`).

    A value of such an option in the command becomes that of the baseline.
    """
    words, knobs = list(command), ""
    for placeholder, names in options.items():
        mark = f"{{{placeholder}}}"
        index = next((n for n, word in enumerate(words) if word.partition("=")[0] in names), None)
        if index is None:
            index, words = len(words), [*words, names[0]]
        option, is_set, value = words[index].partition("=")
        if is_set:
            words[index] = f"{option}={mark}"
        else:
            value, words[index + 1 : index + 2] = "".join(words[index + 1 : index + 2]), [mark]
        if placeholder != OUT:
            baseline = {"baseline": domains.parse_value(value)} if value and value != mark else {}
            knobs += f"\n[knobs.{placeholder}]\n{_toml(baseline)}"
    line = re.sub(r"'(\{\w+\})'", r"\1", shlex.join(words))
    text = Path(__file__).with_suffix(".toml").read_text()
    return text.format(json.dumps(line, ensure_ascii=False), _toml(keys), objective) + knobs


def _toml(keys: Mapping[str, Any]) -> str:
    return "".join(f"{k} = {json.dumps(v, ensure_ascii=False)}\n" for k, v in keys.items())
