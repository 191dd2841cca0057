"""Find the launcher in a command line, its options, and where the program begins. Pure.

Nothing is guessed: how many words an option takes stands in :mod:`tuner.launch.launch_syntax`, and
one that does not stand there is asked for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from tuner.launch.launch_syntax import (
    KEEPS,
    LAUNCHERS,
    MODULES,
    MPIS,
    OTHER_LAUNCHERS,
    PYTHON,
    SHELL,
    SHELLS,
    SUBCOMMANDS,
    TRACELESS,
    Role,
    Syntax,
)
from tuner.model.errors import UsageError, nearest, shown

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PYTHON_NAME = re.compile(r"(python|pypy)[\d.]*|\{python\}")
#: What ends a command of a shell, and the words that may stand before one.
_CONTROL = frozenset({";", "&", "&&", "|", "||", "(", ")", "\n", ";;"})
_KEYWORDS = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!", "{", "}"})
#: The number of ranks attached to its option, as people write it.
_ATTACHED = re.compile(r"--?(np?)([0-9]+)")


class Option(NamedTuple):
    """One option of a launcher as it was typed.

    ``name`` is without dashes, ``value`` the words that follow, or what is behind its ``=``.
    """

    name: str
    value: tuple[str, ...]
    words: tuple[str, ...]


class LaunchLine(NamedTuple):
    """A command that begins with a launcher.

    Attributes:
        name: The launcher, such as ``mpirun`` or ``torchrun``.
        launcher: The words that start it.
        arguments: The rest: its options, and the program.
        before: The programs before it, each with its own arguments.
        in_shell: It stands in the script of a ``sh -c``, in which more may be.
    """

    name: str
    launcher: tuple[str, ...]
    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    in_shell: bool = False


def launch_line(words: Sequence[str]) -> LaunchLine | None:
    """Return the launcher that a command begins with, also behind ``env``, ``time``, ``sh -c``, …

    A program before it whose own options are not known hides it.
    """
    before: list[tuple[str, ...]] = []
    words = tuple(words)
    while words:
        name = PurePath(words[0]).name
        if ASSIGNMENT.fullmatch(words[0]):
            before.append(words[:1])
            words = words[1:]
        elif name in SHELLS:
            return _in_shell(words, before)
        elif wrapper := KEEPS.get(name) or TRACELESS.get(name):
            try:
                _, rest = options_of(wrapper, words[1:])
            except UsageError:
                return None
            rest = rest[wrapper.operands :]
            while name == "env" and rest and ASSIGNMENT.fullmatch(rest[0]):
                rest = rest[1:]
            before.append(words[: len(words) - len(rest)])
            words = rest
        else:
            starter = _starter(words)
            return starter._replace(before=tuple(before)) if starter else None
    return None


def _starter(words: tuple[str, ...]) -> LaunchLine | None:
    """Return the launcher whose name, or module of Python, is the first word."""
    name, length = PurePath(words[0]).name, 1
    if _PYTHON_NAME.fullmatch(name):
        try:
            options, rest = options_of(PYTHON, words[1:], last=("m", "c"))
        except UsageError:
            return None
        ran = options[-1].value[0] if options and options[-1].name == "m" else ""
        if not ran and rest and not (options and options[-1].name == "c"):
            ran, rest = PurePath(rest[0]).name, rest[1:]
        name, length = MODULES.get(ran, ran), len(words) - len(rest)
    if name not in LAUNCHERS and name not in OTHER_LAUNCHERS:
        return None
    subcommand = SUBCOMMANDS.get(name)
    is_module = length > 1 and words[length - 1] in MODULES
    if subcommand and not is_module and words[length : length + 1] != (subcommand,):
        return None
    return LaunchLine(name, words[:length], words[length:])


def _in_shell(words: tuple[str, ...], before: Sequence[tuple[str, ...]]) -> LaunchLine | None:
    """Return the first launcher in the script of ``sh -c SCRIPT``; no file is read."""
    try:
        options, rest = options_of(SHELL, words[1:])
    except UsageError:
        return None
    if not rest or "c" not in {option.name for option in options}:
        return None
    commands = list(_commands(rest[0]))
    line = next(filter(None, map(launch_line, commands)), None)
    if line is None:
        return None
    is_all = len(commands) == 1 and not set(rest[0]) & set("$`<>*?")
    shell = words[: len(words) - len(rest)]
    return line._replace(before=(*before, shell, *line.before), in_shell=not is_all)


def _commands(script: str) -> Iterator[tuple[str, ...]]:
    """Yield the simple commands of a shell's script, as far as no shell is needed to tell them."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    command: list[str] = []
    try:
        for word in lexer:
            if word in _CONTROL or set(word) <= set(";&|()\n"):
                if command:
                    yield tuple(command)
                command = []
            elif command or word not in _KEYWORDS:
                command.append(word)
    except ValueError:  # a quotation is not closed: the shell will say so
        return
    if command:
        yield tuple(command)


def options_of(
    syntax: Syntax, words: Sequence[str], last: Sequence[str] = ()
) -> tuple[list[Option], tuple[str, ...]]:
    """Return the options before a program, and the program with its arguments.

    Args:
        syntax: Whose options they are.
        words: All that follows its name.
        last: Options that end the list, such as ``-m`` of Python.

    Raises:
        UsageError: An option is not known, or its value is missing.
    """
    options: list[Option] = []
    rest = tuple(words)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        if rest[0] == "--":
            return options, rest[1:]
        is_letters = syntax.is_gnu and not rest[0].startswith("--")
        read, rest = (_letters if is_letters else _named)(syntax, rest)
        options += read
        if options[-1].name in last:
            break
    return options, rest


def _named(syntax: Syntax, words: tuple[str, ...]) -> tuple[list[Option], tuple[str, ...]]:
    """Return ``--name``, ``--name VALUE`` or ``--name=VALUE``, and the words after it."""
    attached = _ATTACHED.fullmatch(words[0])
    if attached and syntax.roles.get(attached[1]) is Role.RANKS:
        return [Option(attached[1], (attached[2],), words[:1])], words[1:]
    typed, has_value, value = words[0].lstrip("-").partition("=")
    name = _name(syntax, typed)
    if name is None:
        raise _unknown(syntax, words[0], typed)
    values = (value,) if has_value else ()
    missing = max(syntax.arity[name] - len(values), 0)
    if missing and "=" in "".join((*values, *words[1:])[:1]) and syntax.arity[name] == 2:
        missing -= 1  # NAME=VALUE in place of NAME VALUE
    end = 1 + missing
    return [Option(name, values + _following(syntax, words, end), words[:end])], words[end:]


def _letters(syntax: Syntax, words: tuple[str, ...]) -> tuple[list[Option], tuple[str, ...]]:
    """Return the options of ``-lN2``, and the words after them.

    A letter that takes a value ends the word.
    """
    options: list[Option] = []
    for at, letter in enumerate(words[0][1:], 2):
        behind = words[0][at:]
        if letter not in syntax.arity:
            raise _unknown(syntax, words[0], letter)
        if behind and (letter in syntax.optional or syntax.arity[letter]):
            return [*options, Option(letter, (behind,), (f"-{letter}{behind}",))], words[1:]
        value = _following(syntax, words, 1 + syntax.arity[letter])
        options.append(Option(letter, value, (f"-{letter}", *value)))
    return options, words[1 + len(options[-1].value) :]


def _following(syntax: Syntax, words: tuple[str, ...], end: int) -> tuple[str, ...]:
    """Return the words up to ``end``, which follow an option as its value."""
    if len(words) < end:
        raise UsageError(
            f"{words[0]} of {syntax.name} takes another word, and the line ends there",
            "check the line",
        )
    return words[1:end]


def _name(syntax: Syntax, typed: str) -> str | None:
    """Return the option that a name, or its unambiguous begin, stands for; ``None``: none."""
    for name in (typed, typed.replace("_", "-")):
        if name in syntax.arity and (len(name) > 1 or not syntax.is_gnu):
            return name
        longer = [option for option in syntax.arity if option.startswith(name)]
        if syntax.has_prefixes and len(name) > 1 and len(longer) == 1:
            return longer[0]
    return None


def _unknown(syntax: Syntax, word: str, typed: str) -> UsageError:
    near = nearest(typed, [name for name in syntax.arity if len(name) > 2])
    others = [other.name for other in MPIS if typed.partition("=")[0] in other.arity]
    meant = f"did you mean --{near}?\n" if near else ""
    if syntax in MPIS and others:
        meant = f"it is one of {others[0]}: put the mpirun that the line is for first on PATH\n"
    return UsageError(
        f"{shown(word)} is no option of {syntax.name} that tune knows, so it cannot tell where the"
        " program begins",
        meant
        + ("or " if meant else "")
        + "give the program alone, tune init -- PROGRAM …, and put what is for the launcher into"
        " mpirun_args of the study file",
    )
