"""Study files: their keys, which file is used, and every mistake in it at once with its place.

Relative paths in a study file mean what they would mean in the shell that starts ``tune``:
they are looked up from the current folder. ``{workloads}`` stands for the shipped trainers.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tuner import knobs as table
from tuner.config.options import BY_KEY, OPTIONS, SWITCH, TEXT, WORDS
from tuner.hosts.typed_paths import read_typed, typed_path
from tuner.knobs import domains
from tuner.launch.command import RESERVED, shipped_dir
from tuner.launch.objectives import objective_for
from tuner.model import (
    OFF,
    ON,
    Choice,
    Domain,
    Env,
    Flag,
    Knob,
    LauncherOption,
    ObjectiveSpec,
    Value,
    When,
)
from tuner.model.errors import UsageError, shown, suggestion
from tuner.model.wording import capital

#: The content of a study file as TOML gives it, after :func:`check`.
Document = dict[str, Any]

#: This file is used if it lies in the current folder and the user names no other.
LOCAL_NAME = "tune.toml"
DEFAULT_STUDY = "chainer_mnist"

#: A study file has at most so many bytes.
MOST_BYTES = 1_000_000


def _variable_names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise ValueError("must be a name or a list of names")
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is not the name of a variable")
    return tuple(names)


def _value(value: object) -> Value:
    if not isinstance(value, str) and type(value) is not int:
        raise ValueError("must be a whole number or a string")
    if isinstance(value, int) and abs(value) > domains.MAX_INT:
        raise ValueError("must be a whole number of up to 15 digits, or a string")
    return value


def _values(value: object) -> tuple[Value, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of whole numbers or strings")
    return tuple(_value(item) for item in value)


def _conditions(value: object) -> When:
    if not isinstance(value, dict):
        raise ValueError("must be a table of knobs, each with its values")
    if [] in value.values():
        raise ValueError("must name at least one value of each knob")
    return tuple(
        (str(name), _values(listed if isinstance(listed, list) else [listed]))
        for name, listed in value.items()
    )


_KNOB: Mapping[str, Callable[[Any], Any]] = {  # what reads the value of each key of a knob
    **dict.fromkeys(("range", "flag", "switch", "launcher_option", "help"), TEXT.read),
    "values": _values,
    "fix": _value,
    "baseline": _value,
    "env": _variable_names,
    "when": _conditions,
    "changes_numerics": SWITCH.read,
}
_OBJECTIVE = {field.name: TEXT.read for field in fields(ObjectiveSpec)} | {"maximize": SWITCH.read}


@dataclass(frozen=True)
class KnobEntry:
    """An entry ``[knobs.NAME]``, or what is typed of a knob, says how it differs from the table."""

    range: str | None = None
    values: tuple[Value, ...] | None = None
    fix: Value | None = None
    baseline: Value | None = None
    env: tuple[str, ...] | None = None
    flag: str | None = None
    switch: str | None = None
    launcher_option: str | None = None
    when: When = ()
    changes_numerics: bool | None = None
    help: str | None = None
    #: The values of the file, if others are typed: each value of the file may be typed, too.
    listed: tuple[Value, ...] = ()

    @property
    def has_own_values(self) -> bool:
        """Return whether the entry says which values are tried."""
        return self.range is not None or self.values is not None or self.fix is not None

    def knob(self, name: str, where: str) -> Knob:
        """Return the tool's row with this entry's changes, or a knob of the user's own."""
        is_reserved = name in RESERVED and not table.is_known(name)
        if is_reserved or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UsageError(f"{where}: cannot be the name of a knob", "letters, digits and _")
        for keys in (("range", "values", "fix"), ("env", "flag", "switch", "launcher_option")):
            present = [key for key in keys if getattr(self, key) is not None]
            if len(present) > 1:
                raise UsageError(f"{where}: has {' and '.join(present)}", "keep one of them")
        table_row = table.knob(name) if table.is_known(name) else None
        domain = self._domain(table_row, where)
        row = table_row or Knob(name, domain, Flag())
        if (route := self.route()) is not None:  # the needs are those of the old route
            row = replace(row, route=route, launchers=(), needs=())
        numerics = self.changes_numerics
        return replace(
            row,
            domain=domain,
            help=self.help or row.help,
            default=self.baseline,
            when=self.when or row.when,
            changes_numerics=row.changes_numerics if numerics is None else numerics,
            neutral=OFF if self.switch is not None else row.neutral,
        )

    def _domain(self, row: Knob | None, where: str) -> Domain:
        """Return the values of the entry, or raise ``UsageError`` if the row cannot have them."""
        if self.fix is not None:
            domain: Domain = Choice((self.fix,))
        elif self.range is not None:
            domain = domains.parse_domain(self.range, where=where)
        elif self.values is not None:
            domain = domains.check_domain(Choice(self.values), where=where)
        elif row is not None:
            return row.domain
        elif self.switch is not None:
            return Choice((OFF, ON))
        else:
            raise UsageError(f"{where}: needs range, values or fix", "or --knob NAME=1..8")
        # A range of integers has no values: 0 stands for one that is neither on nor off.
        if self.switch is not None and not {*getattr(domain, "values", (0,))} <= {ON, OFF}:
            raise UsageError(f"{where}: a switch has the values on and off")
        # A list in a file may name other values than a choice of the table.
        if row is not None and (self.values is None or not isinstance(row.domain, Choice)):
            if isinstance(row.domain, Choice):
                row = replace(row, domain=Choice((*row.domain.values, *self.listed)))
            domains.check_against(row, domain, where=where)
        return domain

    def route(self) -> Env | Flag | LauncherOption | None:
        """Return how the value reaches the program; ``None`` if the entry does not say."""
        if self.env is not None:
            return Env(self.env)
        if self.switch is not None:
            return Flag(self.switch, switch=True)
        if self.launcher_option is not None:
            return LauncherOption(self.launcher_option)
        return Flag(self.flag) if self.flag is not None else None


@dataclass(frozen=True)
class Study:
    """What the study file and the command line say of a study, not yet checked on a host."""

    command: tuple[str, ...]
    job: tuple[str, ...]
    objective: ObjectiveSpec
    knobs: Mapping[str, KnobEntry]
    left_out: Mapping[str, str]
    options: Mapping[str, Any]

    def option(self, key: str) -> Any:
        """Return the value of an option of :mod:`tuner.config.options`, or its default."""
        return self.options.get(key, BY_KEY[key].default)


def study_of(
    document: Document,
    typed: Mapping[str, Any] = MappingProxyType({}),
    command: Sequence[str] | None = None,
) -> Study:
    """Return the study that a checked document and what is typed make together; what is typed wins.

    A typed command takes the place of the file's command, job and name. A typed mpirun is not of
    the kind that the file names, and the other way round.
    """
    dropped_keys = {"command", "job", "name"} if command is not None else set()
    if not typed.keys().isdisjoint({"mpirun", "launcher"}):
        dropped_keys |= {"mpirun", "launcher"}
    document = {key: value for key, value in document.items() if key not in dropped_keys}
    study, problems = _read_study(document)
    options = dict(study.options)
    for key in (key for key in typed if key in _OPTION_READERS):
        value = typed[key]
        try:
            options[key] = _OPTION_READERS[key](value)
        except ValueError as error:
            text = shlex.quote(value) if isinstance(value, str) else shown(value)
            problems.append(f"{BY_KEY[key].flag} {text}: {error}.")
    if problems:
        raise UsageError("\n".join(problems), "`tune --help` lists what each option takes")
    words = study.command if command is None else tuple(command)
    return replace(study, command=words, options=options)


#: What reads the value of each key of a file that is no table and not the command.
_OPTION_READERS = {option.key: option.kind.read for option in OPTIONS if option.example}


def _read_study(document: Document) -> tuple[Study, list[str]]:
    """Return the study of a document, and every key that is unknown or has a wrong value."""
    problems: list[str] = []
    tables: dict[str, dict[str, Any]] = {"objective": {}, "knobs": {}, "left_out": {}}
    rest = {key: value for key, value in document.items() if key not in tables}
    for name in tables.keys() & document.keys():
        tables[name] = _table(document[name], name, problems)
    readers = {"command": WORDS.read, "job": WORDS.read, **_OPTION_READERS}
    options = _read(rest, readers, "", problems, (*readers, *tables))
    knobs = {
        name: KnobEntry(
            **_read(_table(entry, f"knobs.{name}", problems), _KNOB, f"knobs.{name}.", problems)
        )
        for name, entry in tables["knobs"].items()
    }
    texts = dict.fromkeys(tables["left_out"], TEXT.read)
    study = Study(
        command=options.pop("command", ()),
        job=options.pop("job", ()),
        objective=ObjectiveSpec(**_read(tables["objective"], _OBJECTIVE, "objective.", problems)),
        knobs=knobs,
        left_out=_read(tables["left_out"], texts, "left_out.", problems),
        options=options,
    )
    return study, problems


def _table(value: object, place: str, problems: list[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{place}: must be a table, is {shown(value)}.")
    return {}


def _read(
    values: Mapping[str, Any],
    readers: Mapping[str, Callable[[Any], Any]],
    place: str,
    problems: list[str],
    known_keys: Collection[str] = (),
) -> dict[str, Any]:
    """Return the values as their readers read them; what is wrong is added to the problems."""
    read: dict[str, Any] = {}
    for key, value in values.items():
        if key not in readers:
            hint = capital(suggestion(key, known_keys or readers))
            problems.append(f"{place}{key}: unknown key. {hint}")
            continue
        try:
            read[key] = readers[key](value)
        except ValueError as error:
            shows_value = value == "" or (isinstance(value, str) and repr(value) in str(error))
            value_text = "" if shows_value else f", is {shown(value)}"
            problems.append(f"{place}{key}: {error}{value_text}.")
    return read


# --- which file is read ----------------------------------------------------------------------


def find_study_file(
    name_or_path: str | None, *, cwd: Path, has_command: bool = False
) -> tuple[Document | None, str]:
    """Return the study file to use and how to name it to the user.

    In this order: ``name_or_path`` (a path, or the name of a shipped study), ``tune.toml`` in
    ``cwd``, and the shipped ``chainer_mnist`` unless a command was typed.
    """
    shipped = {path.stem: path for path in sorted(shipped_dir("studies").glob("*.toml"))}
    if name_or_path is None:
        if (cwd / LOCAL_NAME).is_file():
            return load(cwd / LOCAL_NAME), LOCAL_NAME
        if has_command:
            return None, "command line"
        name_or_path = DEFAULT_STUDY
    path = typed_path(name_or_path, "--study", cwd)
    # A folder of a shipped study's name holds the launches of an earlier run.
    name = path.name if path.is_dir() else name_or_path.removesuffix(".toml")
    if path.exists() and not (path.is_dir() and name in shipped):
        return load(path), name_or_path
    if name not in shipped:
        raise UsageError(
            f"--study: there is no file {name_or_path!r} and no shipped study of that name",
            f"{suggestion(name, shipped)} `tune init {name}.toml` writes a new one",
        )
    return load(shipped[name]), f"{name}.toml (shipped)"


def load(path: Path) -> Document:
    """Read a study file."""
    return parse(read_typed(path, f"the study file {path}", MOST_BYTES), str(path))


def parse(data: bytes, place: str) -> Document:
    """Return what the content of a file at a ``place`` says."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
        check(document, place)
    except UnicodeDecodeError as error:
        raise UsageError(f"{place}: not a text in UTF-8", "save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        fault = error if isinstance(error, tomllib.TOMLDecodeError) else "too long or too deep"
        raise UsageError(f"{place}: not TOML: {fault}", "`tune init -` shows the format") from error
    return document


def check(document: Document, place: str, hint: str = "`tune init -` shows the format") -> None:
    """Raise ``UsageError`` with every wrong key and form; if there is none, with all nonsense."""
    study, mistakes = _read_study(document)
    if _holds_nul(document):
        mistakes.append("a text holds a NUL character, which no command can be given.")
    if not mistakes:
        mistakes = _mistakes_of_sense(study)
    if mistakes:
        head = f"{place} has a mistake:" if len(mistakes) == 1 else f"{place} has mistakes:"
        raise UsageError("\n".join([head, *mistakes]), hint)


def _holds_nul(value: object) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return any(map(_holds_nul, value)) if isinstance(value, list | tuple) else "\0" in str(value)


def _mistakes_of_sense(study: Study) -> list[str]:
    """Return what is wrong with a study whose keys and types are right."""
    mistakes = []
    for name, entry in study.knobs.items():
        try:
            entry.knob(name, f"knobs.{name}")
        except UsageError as error:
            mistakes.append(_sentences(error))
    try:
        objective_for(study.objective)
    except UsageError as error:
        mistakes.append(f"objective: {_sentences(error)}")
    for name in study.left_out:
        if name in study.knobs:
            mistakes.append(f"left_out.{name}: is under knobs as well: keep one of them.")
        elif not table.is_known(name):
            hint = capital(suggestion(name, table.names()))
            mistakes.append(f"left_out.{name}: there is no such knob. {hint}")
    return mistakes


def _sentences(error: UsageError) -> str:
    """Return the error as a part of a list: its message, then its hint."""
    return ". ".join(filter(None, (error.message.rstrip("."), capital(error.hint))))


def template(name: str) -> str:
    """Return the text that ``tune init`` writes: a study file with comments that loads as it is.

    ``name`` is the study's; ``tune`` (of ``tune.toml``) is none.
    """
    from tuner.config.program import as_name

    safe_name = as_name(name)
    name_line = f'name = "{safe_name}"' if safe_name not in ("", "tune") else '#name = "my_job"'
    lines = []
    for option in OPTIONS:
        line = f"{option.key} = {option.example}"
        if option.key == "name":
            line = name_line
        elif option.key not in ("mpi_procs", "trials"):
            line = f"#{line}"
        if option.example:
            lines.append(f"# {option.help} ({option.flag}).\n{line}")
    text = Path(__file__).with_name("template.toml").read_text()
    return text.replace("@OPTIONS@", "\n".join(lines))
