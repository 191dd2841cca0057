"""Writes the files that the user asks for."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from tuner.model.errors import UsageError
from tuner.results.exporters import Export


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
        mode = path.stat().st_mode if path.exists() else stat.S_IFREG | 0o600
        if not stat.S_ISREG(mode):
            path.write_bytes(data)
            return
        # SQLite keeps files of these endings beside a database.
        endings = ("", "-wal", "-shm", "-journal")
        databases = {Path(str(path).removesuffix(ending)) for ending in endings}
        for database in filter(Path.is_file, databases):
            with database.open("rb") as file:
                if file.read(16) == b"SQLite format 3\0":
                    reason = "it is a database, with all that was measured"
                    raise UsageError(f"cannot write {path}: {reason}", "name another file")
        executable = (mode & 0o444) >> 2 if export.executable else 0  # x wherever r is
        target = Path(os.path.realpath(path))
        handle, draft = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), stat.S_IMODE(mode) | executable)
            Path(draft).replace(target)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            "make the folder, free space, or name another file",
        ) from error
