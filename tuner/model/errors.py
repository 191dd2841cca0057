"""The errors a user can meet: each names the value, the place and the next step.

Only ``tuner.cli`` turns them into text and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Characters that move a terminal's cursor or turn its text around, and those that no encoding has
#: (bytes of an argument that are no text are lone surrogates), each as Python writes it.
_VISIBLE = {
    code: repr(chr(code))[1:-1]
    for code in (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F))
} | {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}


class TunerError(Exception):
    """A failure that is explained to the user in one message.

    The message says what was wrong, the value and where it is; the hint what to do next. Both can
    be printed whatever foreign text is in them: control characters are escaped.
    """

    exit_code = 3  # `tune` ends with it

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message.translate(_VISIBLE)
        self.hint = hint.translate(_VISIBLE)
        super().__init__(self.message)
        if hint:
            self.add_note(self.hint)  # Python prints it below the message


class UsageError(TunerError):
    """The user's mistake: an option, a study file, a path, a missing program."""

    exit_code = 2


def missing_extra(what: str, extra: str, error: ImportError) -> UsageError:
    """Return the error for what needs an extra of the distribution that is not installed."""
    return UsageError(f"{what}: {error}", f"pip install 'runtime-tuner[{extra}]'")


class NothingMeasuredError(TunerError):
    """The study ended without one usable measurement."""

    exit_code = 3


class LimitReachedError(TunerError):
    """Every launch was stopped by a limit before it gave a result."""

    exit_code = 4


class BusyError(TunerError):
    """Another process holds the host or the database."""

    exit_code = 5


def shown(value: object) -> str:
    """Return a foreign value for a message as Python writes it, but short."""
    import reprlib

    writer = reprlib.Repr()
    writer.maxlevel, writer.maxstring, writer.maxother, writer.maxlong = 2, 60, 60, 60
    try:
        return writer.repr(value)[:120]
    except ValueError:  # an integer of more digits than Python writes
        return "a very long number"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most like this name; ``None`` if none is like it."""
    import difflib

    return next(iter(difflib.get_close_matches(name.lower(), list(candidates), n=1)), None)


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest candidate, or else all candidates."""
    names = list(dict.fromkeys(candidates))
    if (near := nearest(name, names)) is not None:
        return f"did you mean {near!r}?"
    return f"known: {', '.join(names)}." if names else ""
