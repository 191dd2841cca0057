"""Checks every path that the user typed: on the command line, in a file, in a variable."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tuner.hosts.untrusted_files import open_untrusted
from tuner.model.errors import UsageError, shown


def typed_path(text: str | Path, place: str, folder: Path | None = None) -> Path:
    """Return the path that a text names, from ``folder`` on; it need not exist.

    ``place`` says where it was typed, such as ``--storage``, for the message.

    Raises:
        UsageError: No file can be there: the text is empty, too long, or no UTF-8, it leads round
            in a circle of links, or through a folder that may not be entered.
    """
    text = str(text)
    require_text(text, f"{place} ")
    try:
        path = Path(folder or "", text)
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except ValueError as error:
        raise UsageError(f"{place} {shown(text)} holds a NUL character", "remove it") from error
    except OSError as error:
        raise UsageError(
            f"{place} {shown(text)}: {error.strerror}", "name a file or folder that can be there"
        ) from error
    return path


def require_text(typed: str, place: str = "") -> None:
    """Raise ``UsageError`` for a word that is no UTF-8: no database and no JSON takes it."""
    try:
        typed.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{place}{shown(typed)} holds bytes that are no UTF-8",
            "give the file or the study another name",
        ) from error


def read_typed(path: Path, place: str, most_bytes: int) -> bytes:
    """Return the bytes of a file that the user named; a link is followed.

    ``place`` is how the user knows it, such as ``--hostfile hosts``, for the message.

    Raises:
        UsageError: It cannot be read, is no plain file, or is longer than ``most_bytes``.
    """
    try:
        with open_untrusted(path, follows_links=True) as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        hint = "" if isinstance(error, FileNotFoundError) else "write it to a plain file, name that"
        raise UsageError(f"{place} cannot be read: {error.strerror}", hint) from error
    if len(data) > most_bytes:
        raise UsageError(f"{place} is longer than {most_bytes / 1e6:.3g} MB", "name another file")
    return data
