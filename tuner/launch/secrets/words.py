"""Secrets among the words of a command line (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tuner.launch.secrets.hidden import HIDDEN, Found
from tuner.launch.secrets.names import is_secret, is_secret_variable
from tuner.launch.secrets.options import may_be_secret, password_of, secret_after

_ASSIGNED = re.compile(r"([-+~]{0,2}([A-Za-z_][\w.-]*)=)(.+)", re.DOTALL)


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
        if (start := secret_after(setter, before, word)) is not None:
            return gone(word, start)
        assigned = _ASSIGNED.fullmatch(word)
        if assigned is None:
            return hide(word)
        if (start := password_of(assigned[1][:-1], assigned[3])) is not None:
            return gone(word, assigned.start(3) + start)
        if _is_named(assigned[2]):
            secret = may_be_secret(assigned[2], assigned[3])
            return gone(word, assigned.start(3)) if secret else assigned[1] + hide(assigned[3])
        return hide(word)

    def gone(word: str, start: int) -> str:
        if word[start:] not in ("", HIDDEN):
            found(word[start:])
        return word[:start] + HIDDEN

    return tuple(map(at, range(len(argv))))


def _is_named(name: str) -> bool:
    return is_secret(name) or (name.isupper() and is_secret_variable(name))
