"""Secrets by the option before them: among words, and in the text of a command line (pure)."""

from __future__ import annotations

import re

from tuner.launch.secrets.hidden import HIDDEN, Found
from tuner.launch.secrets.names import is_certain, is_secret, is_secret_variable, words

PLACEHOLDER = re.compile(r"\{\w+\}")

_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)")
_SHORT_NUMBER = re.compile(r"[+-]?[0-9]{1,5}(?:\.[0-9]*)?")
#: Long, of letters and figures: no word and no name of a column.
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+=~-]{16,}")
#: MPICH's ``-genv NAME VALUE``.
_SETS_VARIABLE = frozenset({"-env", "-genv", "--env", "--genv"})
#: curl's and others' ``NAME:PASSWORD``.
_LOGIN = frozenset({"-u", "-U", "--user", "--proxy-user", "--login"})
#: Such an option takes a secret, or the file that it is in.
_MAY_BE_FILE = re.compile(r"credential|creds", re.IGNORECASE)

#: In a text: an option, or one that sets a variable, and the way to its value.
_BEFORE = re.compile(
    r"(?<![\w.-])(?:(--?g?env)\s+([A-Za-z_]\w{0,63})|(--?[A-Za-z][\w.-]{0,63}))"
    r"(=(?=[\"']?[^\s:]{0,256}:)|(?:[^\S\r\n]|\\\r?\n)+)"
)
_SINGLE = r"'(?:[^'\\]|\\.)*'"
#: A word as a shell reads it, also as ``shlex.quote`` writes one with a quote in it. Unquoted
#: it holds no further option with a value, or reading them all would take the square of its time.
_VALUE = re.compile(
    rf"(?!=|:(?!/))(?:(\"(?:[^\"\\]|\\.)*\"|{_SINGLE}(?:(?:\"'\"|\\'){_SINGLE})*)"
    r"|(?:\\(?!\s-|\r?\n).|\"\w[^\s\"']*\"|'\w[^\s\"']*'|[^\s\"'`;&|<>()\\])+)",
    re.DOTALL,
)
_QUOTE_IN_QUOTES = re.compile(r"'(?:\"'\"|\\')'")
#: What a shell puts something else for.
_EXPANDED = re.compile(r"\$(?:[A-Z_][A-Z0-9_]*|\{\w+\}|\(.*\))?", re.DOTALL)


def secret_after(setter: str, before: str, word: str) -> int | None:
    """Where in ``word`` the secret starts that the two words before it tell of, if any."""
    if PLACEHOLDER.fullmatch(word):
        return None
    if _is_value(before, word) or (setter in _SETS_VARIABLE and is_secret_variable(before)):
        return 0
    return password_of(before, word)


def password_of(option: str, word: str) -> int | None:
    """Where the password starts in the ``NAME:PASSWORD`` that ``option`` takes, if it does."""
    name, _, password = word.partition(":")
    plain = not password or password.isdigit() or PLACEHOLDER.fullmatch(password)
    return None if option not in _LOGIN or plain else len(name) + 1


def may_be_secret(name: str, value: str) -> bool:
    """False for a knob's place, and for what such a name also takes: a small number, a path."""
    if PLACEHOLDER.fullmatch(value):
        return False
    if _MAY_BE_FILE.search(name) and ("/" in value or value.endswith(".json")):
        return False
    return is_certain(name) or _SHORT_NUMBER.fullmatch(value) is None


def hide_options(text: str, found: Found) -> str:
    """The text with ``***`` for what options in it take, as ``sh -c`` is given them."""
    parts, done = [], 0
    for option in _BEFORE.finditer(text):
        if option.start() < done or (option[4] == "=" and option[3] not in _LOGIN):
            continue
        if (value := _VALUE.match(text, option.end())) is None:
            continue
        if (hidden := _hidden(option, value, found)) is not None:
            parts += [text[done : value.start()], hidden]
            done = value.start() + len(value[0].rstrip(","))
    return "".join(parts) + text[done:]


def _hidden(option: re.Match[str], value: re.Match[str], found: Found) -> str | None:
    """What stands for a value, in its quotes; ``None`` where it is no secret."""
    setter, variable, name, way = option.groups()
    quote = value[1][0] if value[1] else ""
    bare = _QUOTE_IN_QUOTES.sub("'", value[1][1:-1]) if value[1] else value[0].rstrip(",")
    if quote != "'" and _EXPANDED.fullmatch(bare):
        return None
    start = (
        password_of(name or "", bare)
        if way == "="
        else secret_after(setter or "", variable or name, bare)
    )
    if start is None:
        return None
    if bare[start:] not in ("", HIDDEN):
        found(bare[start:])
    return f"{quote}{bare[:start]}{HIDDEN}{quote}"


def _is_value(option: str, word: str) -> bool:
    """True where ``word`` is the secret that ``option`` takes."""
    named = _OPTION.fullmatch(option)
    if named is None or not word or _is_option(word):
        return False
    if words(named[1]) == ["key"]:
        return _RANDOM.fullmatch(word) is not None or word == HIDDEN
    return is_secret(named[1]) and may_be_secret(named[1], word)


def _is_option(word: str) -> bool:
    return re.fullmatch(r"--[A-Za-z][\w.-]*(=.*)?|-[A-Za-z]", word, re.DOTALL) is not None
