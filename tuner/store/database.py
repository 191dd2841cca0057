"""Opens a database: the engine, the file, the tables, with an error for what is wrong with each."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
import warnings
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tuner.hosts.untrusted_files import make_folder
from tuner.model.errors import UsageError, missing_extra, shown
from tuner.store import schema
from tuner.store.failures import from_os_error, translated
from tuner.store.urls import display_url, sqlite_path

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage
    from sqlalchemy.engine import Engine

#: How long a statement waits for another process that holds the database, s.
BUSY_S = 10.0

#: How often a host that shares a study sends a sign of life for its trial, and after how long
#: without one the trial counts as lost, s.
HEARTBEAT_S, LOST_AFTER_S = 10, 30

#: How often to try to make Optuna's tables while another process makes them, too.
RACES = 20

#: A server that does not answer within this time cannot be reached, s.
CONNECT_S = 10

#: File systems whose locks SQLite cannot trust (sqlite.org/faq.html, question 5;
#: optuna/optuna issues 815, 820 and 6036 are what happens).
NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "gpfs", "beegfs", "afs", "panfs"}
    | {"fuse.sshfs", "fuse.glusterfs"}
)

#: The file systems that are mounted.
MOUNTS = Path("/proc/self/mountinfo")


class _WriteAheadConnection(sqlite3.Connection):
    """A connection whose commits survive the process, but wait for the disk only at a checkpoint.

    See sqlite.org/wal.html. A launch is some eight commits, and each would wait 10 ms otherwise.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        with suppress(sqlite3.OperationalError):  # another process reads it: no write-ahead then
            if self.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",):
                self.execute("PRAGMA synchronous = NORMAL")


def end_write_ahead(path: Path) -> None:
    """Make an SQLite file without connections one file again, which read-only folders may hold."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    # Another process may be reading it, or the disk is full: then it stays two files.
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, timeout=0, uri=True)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def _engine_options(url: str, busy_s: float, *, write_ahead: bool = False) -> dict[str, Any]:
    """Return keyword arguments of ``create_engine``, for our engine and for Optuna's."""
    if sqlite_path(url) is not None:
        factory = _WriteAheadConnection if write_ahead else sqlite3.Connection
        return {"connect_args": {"timeout": busy_s, "factory": factory}}
    # Without a lock_timeout PostgreSQL waits for ever.
    options = f"-c lock_timeout={int(busy_s * 1000)}"
    return {
        "connect_args": {"connect_timeout": CONNECT_S, "options": options},
        "pool_pre_ping": True,  # a restarted server leaves dead connections behind
    }


def connect(url: str) -> Engine:
    """Return an engine for a database that holds studies; nothing is written.

    It is a `UsageError` if the database is missing, corrupt, none, of another program, on a network
    file system or a server that cannot be reached, and a `BusyError` if it stays locked.
    """
    path = sqlite_path(url)
    if path is not None:
        _refuse_place(path, MOUNTS)
    if path is None or path.exists():
        with translated(url):
            engine = _engine(url)
            if _holds_studies(engine, url):
                return engine
        what = f"the database {display_url(url)} holds no studies of tune"
    else:
        what = f"there is no database {path} yet"
    raise UsageError(what, "run tune first, or name another database with --storage FILE")


def create(url: str) -> RDBStorage:
    """Return a storage of Optuna's that can be written; file and tables are made if missing.

    The errors are those of :func:`connect`; a read-only database is a `UsageError`, too.
    """
    path = sqlite_path(url)
    if path is not None:
        _refuse_place(path, MOUNTS)
        try:
            make_folder(path.parent)
            # For its owner only from the first byte on: command lines may hold secrets.
            with suppress(FileExistsError):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                os.close(os.open(path, flags, 0o600))
        except OSError as error:
            raise from_os_error(
                error, f"the database {path}", "choose another place with --storage FILE"
            ) from error
    with translated(url):
        engine = _engine(url)
        _holds_studies(engine, url)
        engine.dispose()
    storage = optunas_storage(url, write_ahead=True)
    table = schema.observations
    with translated(url), storage.engine.begin() as connection:
        connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
        # This shows that the database can be written: the commit leaves no row.
        connection.execute(sa.insert(table).values(trial_id=-1, ranks=""))
        connection.execute(sa.delete(table).where(table.c.trial_id == -1))
    return storage


def optunas_storage(url: str, *, write_ahead: bool = False) -> RDBStorage:
    """Return Optuna's storage with its tables; with heartbeats if hosts can share it.

    Tables of another version of Optuna's are a `UsageError`.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Optuna replaces "{SCHEMA_VERSION}" in the URL, so braces of the path are doubled.
    escaped_url = url.replace("{", "{{").replace("}", "}}")
    options = _engine_options(url, BUSY_S, write_ahead=write_ahead)
    beat_s, lost_s = (HEARTBEAT_S, LOST_AFTER_S) if sqlite_path(url) is None else (None, None)
    with translated(url), warnings.catch_warnings():
        # Heartbeats are marked experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        for attempt in range(RACES):
            try:
                return optuna.storages.RDBStorage(
                    escaped_url, options, heartbeat_interval=beat_s, grace_period=lost_s
                )
            except (sa.exc.DBAPIError, AssertionError) as error:
                # Another first run makes the same tables, and was quicker with one of them.
                is_race = isinstance(error, (sa.exc.IntegrityError, AssertionError))
                if attempt == RACES - 1 or not (is_race or "already exists" in str(error)):
                    raise
                time.sleep(0.1)
            except RuntimeError as error:  # the tables of another version
                raise UsageError(
                    f"the tables of Optuna in {display_url(url)} do not fit Optuna"
                    f" {optuna.__version__}: {error}",
                    "run optuna storage upgrade, or choose another database with --storage FILE",
                ) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def is_shared(storage: BaseStorage) -> bool:
    """Return whether several hosts may work on a study of this storage."""
    from optuna.storages._heartbeat import BaseHeartbeat

    return isinstance(storage, BaseHeartbeat) and storage.get_heartbeat_interval() is not None


def check(url: str, *, mounts: Path = MOUNTS) -> None:
    """Raise what :func:`create` would if no study can be kept there; nothing is made."""
    path = sqlite_path(url)
    if path is not None:
        _refuse_place(path, mounts)
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        code = 0 if folder.is_dir() else errno.ENOTDIR
        # SQLite makes its journal beside the file.
        if not all(os.access(place, os.W_OK) for place in (folder, path) if place.exists()):
            code = errno.EACCES
        if code:
            hint = "choose another place with --storage FILE"
            raise from_os_error(OSError(code, os.strerror(code)), f"the database {path}", hint)
        if not path.exists():
            return
    with translated(url):
        engine = _engine(url, busy_s=1.0)
        try:
            _holds_studies(engine, url)
        finally:
            engine.dispose()


def _engine(url: str, busy_s: float = BUSY_S) -> Engine:
    try:
        return sa.create_engine(url, **_engine_options(url, busy_s))
    except ModuleNotFoundError as error:
        raise missing_extra(f"--storage {display_url(url)}", "postgres", error) from error
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(
            f"--storage {display_url(url)} is not a database URL",
            "write the path of an SQLite file, or postgresql://USER@HOST:PORT/NAME",
        ) from None  # the text of the error repeats the URL, which may hold a password


def _refuse_place(path: Path, mounts: Path) -> None:
    """Refuse a network file system, a folder, a pipe and a device."""
    kind = file_system(path.resolve(), mounts)
    if kind in NETWORK:
        raise UsageError(
            f"the database {path} would lie on a network file system ({kind}),"
            " where SQLite loses data",
            "put it on a local disk with --storage, e.g. --storage /var/tmp/tune.db, and copy"
            " the file when the study is done; or use a PostgreSQL server",
        )
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "not a plain file"
        raise UsageError(f"the database {path} is {what}", "name a file with --storage")


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the kind of file system that a path, which need not exist, is on; empty if unknown."""
    device = next(place for place in (path, *path.parents) if place.exists()).stat().st_dev
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:  # proc(5): the third word is the device, the type follows the dash
        words, _, rest = line.partition(" - ")
        if words.split(" ")[2:3] == [f"{os.major(device)}:{os.minor(device)}"]:
            return rest.split(" ")[0]
    return ""


def _holds_studies(engine: Engine, url: str) -> bool:
    """Return whether the tables exist; refuse a file that has only tables of another program."""
    names = {*sa.inspect(engine).get_table_names()}
    if names and not names & schema.READ and sqlite_path(url) is not None:
        raise UsageError(
            f"the database {display_url(url)} is of another program: it has the table"
            f" {shown(min(names))} and none of tune's",
            "choose another file with --storage FILE",
        )
    return schema.studies.name in names
