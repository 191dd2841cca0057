"""Study files: which one is used, and every mistake in it at once, each with its place.

Relative paths in a study file mean what they would mean in the shell that starts ``tune``:
they are looked up from the current folder. ``{workloads}`` stands for the shipped trainers.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner import knobs as table
from tuner.config.options import OPTIONS
from tuner.config.schema import KEYS, STUDY, KnobEntry, Study
from tuner.hosts.typed_paths import read_typed, typed_path
from tuner.knobs import domains
from tuner.launch.command import RESERVED, knobs_in, shipped_dir
from tuner.launch.objectives import objective_for
from tuner.model import OFF, ON, Choice
from tuner.model.errors import UsageError, shown, suggestion
from tuner.model.wording import capital

T = TypeVar("T", bound=BaseModel)

#: What a study file holds, as TOML gives it; checked.
Document = dict[str, Any]

#: Used without being asked for if it lies in the current folder.
LOCAL_NAME = "tune.toml"
DEFAULT_STUDY = "chainer_mnist"

#: No study file is larger than this.
MOST_BYTES = 1_000_000


def shipped_studies() -> dict[str, Path]:
    """The study files that come with the tool, by name."""
    return {path.stem: path for path in sorted(shipped_dir("studies").glob("*.toml"))}


def find_study_file(
    given: str | None, *, cwd: Path, has_command: bool = False
) -> tuple[Document | None, str]:
    """The study file to use and how to name it to the user.

    In this order: ``given`` (a path, or the name of a shipped study), ``tune.toml`` in
    ``cwd``, and the shipped ``chainer_mnist`` unless a command was typed.

    Raises:
        UsageError: There is no such file, or it has mistakes.
    """
    shipped = shipped_studies()
    if given is None:
        if (cwd / LOCAL_NAME).is_file():
            return load(cwd / LOCAL_NAME), LOCAL_NAME
        if has_command:
            return None, "command line"
        given = DEFAULT_STUDY
    else:
        path = typed_path(given, "--study", cwd)
        # A folder of a shipped study's name holds the launches of an earlier run.
        name = path.name if path.is_dir() else given.removesuffix(".toml")
        if path.exists() and not (path.is_dir() and name in shipped):
            return load(path), given
        if name not in shipped:
            raise UsageError(
                f"--study: there is no file {given!r} and no shipped study of that name",
                f"{suggestion(name, shipped)} `tune init {name}.toml` writes a new one",
            )
        given = name
    return load(shipped[given]), f"{given}.toml (shipped)"


def load(path: Path) -> Document:
    """Read a study file.

    Raises:
        UsageError: It cannot be read, is not TOML (line and column), or holds mistakes: all
            of them, each with its place.
    """
    data = read_typed(path, f"the study file {path}", MOST_BYTES)
    return parse(data, str(path))


def parse(data: bytes, place: str) -> Document:
    """What the content of a file says; errors name the ``place``.

    Raises:
        UsageError: As :func:`load`.
    """
    try:
        document = tomllib.loads(data.decode("utf-8"))
        check(document, place)
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: not a text in UTF-8", "save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        fault = error if isinstance(error, tomllib.TOMLDecodeError) else "too long or too deep"
        raise UsageError(f"{place}: not TOML: {fault}", "`tune init -` shows the format") from error
    return document


def check(document: Document, place: str) -> None:
    """Raise ``UsageError`` with every mistake of a document."""
    if mistakes := _mistakes(document):
        head = f"{place} has a mistake:" if len(mistakes) == 1 else f"{place} has mistakes:"
        raise UsageError("\n".join([head, *mistakes]), "`tune init -` shows the format")


def study_of(
    document: Document,
    typed: Mapping[str, Any] = MappingProxyType({}),
    places: Mapping[str, str] = MappingProxyType({}),
) -> Study:
    """The study that a checked document and typed options make together; what is typed wins.

    Args:
        document: What the study file says.
        typed: Further keys of a study.
        places: How the user knows each of these, such as ``--trials``.

    Raises:
        UsageError: Every mistake of what was typed.
    """
    errors, study = _validated(STUDY, {**document, **typed})
    if study is None:
        lines = [_line(error, places) for error in errors]
        raise UsageError("\n".join(lines), "`tune --help` lists what each option takes")
    return study


def _validated(kind: type[T], data: object) -> tuple[list[ErrorDetails], T | None]:
    try:
        return [], kind.model_validate(data)
    except ValidationError as error:
        return error.errors(), None


# --- the mistakes of a file -----------------------------------------------------------------


def _mistakes(data: Document) -> list[str]:
    """Every wrong key and form; if there is none, everything that makes no sense."""
    errors, study = _validated(STUDY, data)
    mistakes = list(dict.fromkeys([*map(_line, errors), *_nul_mistakes(data)]))
    if mistakes or study is None:
        return mistakes
    placed = knobs_in(study.command)
    for name, entry in study.knobs.items():
        mistakes += _knob_mistakes(name, entry, bool(study.command) and name not in placed)
    try:
        objective_for(study.objective.spec())
    except UsageError as error:
        mistakes.append(f"objective: {_sentences(error)}")
    return mistakes + _left_out_mistakes(study)


def _line(error: ErrorDetails, places: Mapping[str, str] | None = None) -> str:
    """One of pydantic's errors in the words of this tool, with its place."""
    first, *rest = error["loc"]
    place = ".".join(map(str, ((places or {}).get(str(first), first), *rest)))
    given, kind = error["input"], error["type"]
    if kind == "extra_forbidden":
        keys = KEYS[str(first) if rest else ""]
        return f"{place}: unknown key. {capital(suggestion(str(error['loc'][-1]), keys))}"
    if kind == "string_too_short" or given == "":
        return f"{place}: must not be empty."
    types = {
        "int_type": "must be a whole number",
        "bool_type": "must be true or false",
        "string_type": "must be a string",
        "dict_type": "must be a table",
        "model_type": "must be a table",
    }
    text = types.get(kind) or str(error.get("ctx", {}).get("error", error["msg"]))
    if places and first in places:
        value = shlex.quote(given) if isinstance(given, str) else shown(given)
        return f"{place} {value}: {text}."
    said = isinstance(given, str) and repr(given) in text
    return f"{place}: {text}." if said else f"{place}: {text}, is {shown(given)}."


def _nul_mistakes(value: object, place: str = "") -> list[str]:
    """Every text with a character that no argument or variable can hold."""
    if isinstance(value, str) and "\0" in value:
        return [f"{place}: holds a NUL character, which no command can be given."]
    if isinstance(value, dict):
        inner = [(f"{place}.{key}" if place else key, item) for key, item in value.items()]
    else:
        inner = [(place, item) for item in value] if isinstance(value, list) else []
    return [mistake for where, item in inner for mistake in _nul_mistakes(item, where)]


_DOMAIN_KEYS = ("range", "values", "fix")
_ROUTE_KEYS = ("env", "flag", "switch", "launcher_option")


def _knob_mistakes(name: str, entry: KnobEntry, is_not_placed: bool) -> list[str]:
    """What makes no sense about an entry; ``is_not_placed``: the command has no place for it."""
    where = f"knobs.{name}"
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in RESERVED:
        return [f"{where}: cannot be the name of a knob."]
    for keys in (_DOMAIN_KEYS, _ROUTE_KEYS):
        given = [key for key in keys if getattr(entry, key) is not None]
        if len(given) > 1:
            return [f"{where}: has {' and '.join(given)}: keep one of them."]
    is_ours = table.is_known(name)
    if not is_ours and entry.route() is None and is_not_placed:
        return [
            f"{where}: nothing carries it to the program: "
            f"{suggestion(name, table.names())} A knob of your own needs env, flag, "
            f"switch, launcher_option, or {{{name}}} in the command."
        ]
    listed = (entry.fix,) if entry.fix is not None else entry.values or ()
    if entry.switch is not None and (entry.range is not None or not set(listed) <= {ON, OFF}):
        return [f"{where}: a switch has the values on and off."]
    try:
        knob = entry.knob(name, where)
        if is_ours and entry.values is None:
            domains.check_against(table.knob(name), knob.domain, where=where)
        elif is_ours and not isinstance(table.knob(name).domain, Choice):
            domains.check_against(table.knob(name), knob.domain, where=f"{where}.values")
    except UsageError as error:
        return [_sentences(error)]
    return []


def _sentences(error: UsageError) -> str:
    """The error as a part of a list: its message, then its hint."""
    return ". ".join(filter(None, (error.message.rstrip("."), capital(error.hint))))


def _left_out_mistakes(study: Study) -> list[str]:
    mistakes = []
    for name in study.left_out:
        if name in study.knobs:
            mistakes.append(f"left_out.{name}: is under knobs as well: keep one of them.")
        elif not table.is_known(name):
            hint = capital(suggestion(name, table.names()))
            mistakes.append(f"left_out.{name}: there is no such knob. {hint}")
    return mistakes


# --- the template ---------------------------------------------------------------------------


def template(name: str) -> str:
    """The text that ``tune init`` writes: a study file with comments that loads as it is.

    Args:
        name: The study's name, other characters than a name can have replaced; ``tune``
            (of ``tune.toml``) is none, and leaves it to be made of the program's.
    """
    from tuner.config.program import as_name

    safe = as_name(name)
    named = f'name = "{safe}"' if safe not in ("", "tune") else '#name = "my_job"'
    lines = []
    for option in OPTIONS:
        line = f"{option.key} = {option.example}"
        if option.key == "name":
            line = named
        elif option.key not in ("mpi_procs", "trials"):
            line = f"#{line}"
        lines.append(f"# {option.help} ({option.flag.partition('/')[0]}).\n{line}")
    text = Path(__file__).with_name("template.toml").read_text()
    return text.replace("@OPTIONS@", "\n".join(lines))
