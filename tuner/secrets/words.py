"""Secrets among the words of a command line (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tuner.secrets.names import is_certain, is_secret, is_secret_variable, words
from tuner.secrets.shapes import HIDDEN, Found

_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)")
_ASSIGNED = re.compile(r"([-+~]{0,2}([A-Za-z_][\w.-]*)=)(.+)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\w+\}")
_SHORT_NUMBER = re.compile(r"[+-]?[0-9]{1,5}(?:\.[0-9]*)?")
#: Long, of letters and figures: no word and no name of a column.
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+=~-]{16,}")
#: MPICH's ``-genv NAME VALUE``.
_SETS_VARIABLE = frozenset({"-env", "-genv", "--env", "--genv"})
#: curl's and others' ``NAME:PASSWORD``.
_LOGIN = frozenset({"-u", "-U", "--user", "--proxy-user", "--login"})


def hide_words(argv: Sequence[str], hide: Callable[[str], str], found: Found) -> tuple[str, ...]:
    """The words with ``***`` for secrets.

    Args:
        argv: A command, or a template of one; a placeholder is never a secret.
        hide: What else is hidden in the text of a word.
        found: Told each secret.
    """

    def at(number: int) -> str:
        word = argv[number]
        before = argv[number - 1] if number else ""
        setter = argv[number - 2] if number > 1 else ""
        if _is_value(before, word) or (setter in _SETS_VARIABLE and is_secret_variable(before)):
            return gone(word)
        if before in _LOGIN and (login := word.partition(":"))[2] and not login[2].isdigit():
            return f"{login[0]}:{gone(login[2])}"
        assigned = _ASSIGNED.fullmatch(word)
        if assigned is not None and _is_named(assigned[2]):
            secret = _may_be_secret(assigned[2], assigned[3])
            return assigned[1] + (gone if secret else hide)(assigned[3])
        return hide(word)

    def gone(value: str) -> str:
        if value not in ("", HIDDEN):
            found(value)
        return HIDDEN

    return tuple(map(at, range(len(argv))))


def _is_named(name: str) -> bool:
    return is_secret(name) or (name.isupper() and is_secret_variable(name))


def _is_value(option: str, word: str) -> bool:
    """True where ``word`` is the secret that ``option`` takes."""
    named = _OPTION.fullmatch(option)
    if named is None or not word or _is_option(word):
        return False
    if words(named[1]) == ["key"]:
        return _RANDOM.fullmatch(word) is not None or word == HIDDEN
    return is_secret(named[1]) and _may_be_secret(named[1], word)


def _is_option(word: str) -> bool:
    return re.fullmatch(r"--[A-Za-z][\w.-]*(=.*)?|-[A-Za-z]", word, re.DOTALL) is not None


def _may_be_secret(name: str, value: str) -> bool:
    """False for a knob's place, and for what such a name also takes: a small number, a path."""
    if _PLACEHOLDER.fullmatch(value):
        return False
    if not is_certain(name):
        return _SHORT_NUMBER.fullmatch(value) is None
    return "credential" not in name.lower() or not ("/" in value or value.endswith(".json"))
