"""Whether an SQLite file is still the one that was opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.model.errors import TunerError
from tuner.store.urls import sqlite_path


@dataclass(frozen=True)
class Watch:
    """The file as it was when it was opened; ``path`` is ``None`` for a server."""

    path: Path | None
    file: tuple[int, int] | None

    @classmethod
    def of(cls, url: str) -> Watch:
        """Remember the file of a database."""
        path = sqlite_path(url)
        path = None if path is None else path.absolute()
        return cls(path, _file(path))

    def require_same(self) -> None:
        """Make sure that what is committed goes to the file of that name.

        SQLite keeps the file open: without this it would write on into one that was removed.

        Raises:
            TunerError: It was moved, removed or replaced.
        """
        now = _file(self.path)
        if now == self.file:
            return
        what = "moved or removed" if now is None else "replaced by another file"
        raise TunerError(
            f"the database {self.path} was {what} while the study ran",
            "Put it back, then run the same command again.",
        )


def _file(path: Path | None) -> tuple[int, int] | None:
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)
