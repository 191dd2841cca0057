"""Writes the files that the user asks for."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from tuner.model.errors import UsageError
from tuner.results.exporters import Export

#: How each database file of SQLite begins, and what it appends to the name for others.
_SQLITE = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")


def write(path: Path, export: Export) -> None:
    """Write a plain file whole or not at all; a pipe or a device takes the text as it comes.

    A link stays, and what it leads to is written. A new file is for its owner only (0600),
    whatever the umask; one that exists keeps its permissions. A script becomes executable for
    those who may read it.

    Raises:
        UsageError: The folder is missing, the file cannot be written to, or is a database.
    """
    data = export.text.encode("utf-8", "surrogateescape")
    try:
        mode = _mode(path)
        if stat.S_ISDIR(mode):
            raise UsageError(f"cannot write {path}: it is a folder", "name a file in it")
        if not stat.S_ISREG(mode):
            path.write_bytes(data)
            return
        if _is_database(path):
            raise UsageError(
                f"cannot write {path}: it is a database, with all that was measured",
                "name another file",
            )
        permissions = stat.S_IMODE(mode)
        if export.executable:
            permissions |= (permissions & 0o444) >> 2
        _replace(Path(os.path.realpath(path)), data, permissions)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            "make the folder, free space, or name another file",
        ) from error


def _is_database(path: Path) -> bool:
    """True for a file of SQLite, and for those that it keeps beside one."""
    name = str(path)
    databases = [name, *(name.removesuffix(end) for end in _BESIDE if name.endswith(end))]
    for database in map(Path, databases):
        if database.is_file():
            with database.open("rb") as file:
                if file.read(len(_SQLITE)) == _SQLITE:
                    return True
    return False


def _mode(path: Path) -> int:
    """The kind and the permissions of a file, or what a new one would have."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return stat.S_IFREG | 0o600


def _replace(path: Path, data: bytes, permissions: int) -> None:
    """Put a new file in the place of ``path``; on an error nothing has changed."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), permissions)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
