"""Transactions on one database; what goes wrong in them comes out as the user's error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tuner.model.errors import TunerError, UsageError
from tuner.store.failures import translated
from tuner.store.urls import display_url, sqlite_path

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine


class TakenError(Exception):
    """A unique constraint said no; callers say what that means."""


class Transactions:
    """Those of one database."""

    def __init__(self, url: str, engine: Engine) -> None:
        self._url = url
        self._engine = engine
        self._watch = Watch.of(url)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def require_same(self) -> None:
        """Make sure that the file is the one that was opened; see :class:`Watch`."""
        self._watch.require_same()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction, committed at the end.

        Raises:
            TakenError: A unique constraint said no.
            BusyError, UsageError, TunerError: See :class:`tuner.store.store.Store`.
        """
        try:
            with (
                translated(self._url, opened=True),
                _unique_names(),
                self._engine.begin() as connection,
            ):
                yield connection
        except TunerError:
            self._watch.require_same()  # then that is what is wrong, whatever SQLite calls it
            raise

    @contextmanager
    def readable(self, what: str) -> Iterator[None]:
        """Name the rows (``what``) in the error if they are not what ``tune`` writes."""
        try:
            yield
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"the database {display_url(self._url)} holds a row that is not of tune,"
                f" {what}: {str(error)[:200]}",
                "Another program or version wrote it, or the disk is damaged: restore a copy, or"
                " begin anew with --fresh or --storage FILE.",
            ) from error


@contextmanager
def _unique_names() -> Iterator[None]:
    try:
        yield
    except sa.exc.IntegrityError as error:
        raise TakenError from error


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
