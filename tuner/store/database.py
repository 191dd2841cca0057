"""Opening a database: the engine, the file, our tables, and what can be wrong with each."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tuner.hosts.untrusted_files import make_folder
from tuner.model import Exclusion, ExclusionKind, codec
from tuner.model.errors import UsageError, shown
from tuner.store import schema
from tuner.store.failures import foreign, from_os_error, translated
from tuner.store.rows import now
from tuner.store.urls import display_url, sqlite_path

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

#: How long a statement waits for another process that holds the database.
BUSY_S = 10.0

#: A server that does not answer in this time is not there.
CONNECT_S = 10


#: File systems whose locks SQLite cannot trust (sqlite.org/faq.html, question 5;
#: optuna/optuna issues 815, 820 and 6036 are what happens).
NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "gpfs", "beegfs", "afs", "panfs"}
    | {"fuse.sshfs", "fuse.glusterfs"}
)

#: The file systems that are mounted.
MOUNTS = Path("/proc/self/mountinfo")

#: No row is longer, bytes.
MOST_BYTES = 1 << 25


def engine_options(url: str, busy_s: float = BUSY_S) -> dict[str, Any]:
    """Keyword arguments of ``create_engine``, for our engine and for Optuna's."""
    if sqlite_path(url) is not None:
        return {"connect_args": {"timeout": busy_s, "factory": _Connection}}
    # lock_timeout: PostgreSQL's own default is to wait for ever.
    options = f"-c lock_timeout={int(busy_s * 1000)}"
    return {
        "connect_args": {"connect_timeout": CONNECT_S, "options": options},
        "pool_pre_ping": True,  # a restarted server leaves dead connections behind
    }


class _Connection(sqlite3.Connection):
    """One that refuses rows that are too long to be of ``tune`` or of Optuna."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)


def connect(url: str, *, create: bool, busy_s: float = BUSY_S) -> Engine:
    """An engine whose tables are there and can be used.

    Args:
        create: Make the file and the tables if they are missing, and check that they can
            be written; otherwise nothing is written but what an older version's tables lack.

    Raises:
        UsageError: Missing, read-only, corrupt, not a database, on a network file system, of
            a newer schema, or a server that cannot be reached.
        BusyError: Locked for longer than ``busy_s`` seconds.
    """
    path = sqlite_path(url)
    if path is not None:
        _prepare_file(path, create=create)
    with translated(url):
        engine = _engine(url, busy_s)
        _prepare_tables(engine, url, create=create)
    return engine


def check(url: str, *, mounts: Path = MOUNTS) -> None:
    """See whether a study can be kept there; nothing is made.

    Raises:
        UsageError: As :func:`connect` with ``create`` would.
        BusyError: Locked for longer than a second.
    """
    path = sqlite_path(url)
    if path is not None:
        _refuse_place(path, mounts)
        folder = next(each for each in path.absolute().parents if each.exists())
        code = 0 if folder.is_dir() else errno.ENOTDIR
        # SQLite makes its journal beside the file.
        if not all(os.access(each, os.W_OK) for each in (folder, path) if each.exists()):
            code = errno.EACCES
        if code:
            hint = "choose another place with --storage FILE"
            raise from_os_error(OSError(code, os.strerror(code)), f"the database {path}", hint)
        if not path.exists():
            return
    with translated(url):
        engine = _engine(url, busy_s=1.0)
        try:
            _stored_version(engine, url)
        finally:
            engine.dispose()


def _engine(url: str, busy_s: float) -> Engine:
    try:
        engine = sa.create_engine(url, **engine_options(url, busy_s))
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--storage {display_url(url)}: the module {error.name} is not installed",
            "install it: pip install 'psycopg[binary]'",
        ) from error
    except (sa.exc.ArgumentError, ValueError):
        raise UsageError(
            f"--storage {display_url(url)} is not a database URL",
            "write the path of an SQLite file, or postgresql://USER@HOST:PORT/NAME",
        ) from None  # its words repeat the URL, which may hold a password
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _set_up)
    return engine


def _set_up(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA foreign_keys = ON")  # SQLite's default is off
    connection.execute("PRAGMA synchronous = FULL")  # whatever it was built with: commits last


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
    if path.is_dir():
        raise UsageError(f"the database {path} is a folder", "name a file in it with --storage")
    if path.exists() and not path.is_file():
        raise UsageError(f"the database {path} is not a plain file", "name another with --storage")


def _prepare_file(path: Path, *, create: bool) -> None:
    _refuse_place(path, MOUNTS)
    if path.exists():
        return
    if not create:
        raise UsageError(
            f"there is no database {path} yet",
            "run tune first, or name another database with --storage FILE",
        )
    try:
        make_folder(path.parent)
        # Command lines may hold secrets: only for the owner, from the first byte on.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise from_os_error(
            error, f"the database {path}", "choose another place with --storage FILE"
        ) from error


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of the file system that a path, which need not exist, is on; empty if unknown."""
    there = next(each for each in (path, *path.parents) if each.exists())
    device = there.stat().st_dev
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:  # proc(5): the third word is the device, the type follows the dash
        words, _, rest = line.partition(" - ")
        if words.split(" ")[2:3] == [f"{os.major(device)}:{os.minor(device)}"]:
            return rest.split(" ")[0]
    return ""


def _stored_version(engine: Engine, url: str) -> int | None:
    """The version of the schema that is there, ``None`` for none; ours or an older one."""
    # A view may have no end, and nothing can be written to it.
    views = {*sa.inspect(engine).get_view_names()} & {*schema.metadata.tables, *schema.OF_OPTUNA}
    if views:
        raise foreign(url, f"{min(views)} is a view, not a table")
    version, tables = None, {*sa.inspect(engine).get_table_names()}
    others = tables - schema.OF_OPTUNA - schema.metadata.tables.keys()
    if schema.meta.name not in tables and others and sqlite_path(url) is not None:
        raise UsageError(
            f"the database {display_url(url)} is of another program: it has the table"
            f" {shown(min(others))} and none of tune's",
            "choose another file with --storage FILE",
        )
    if schema.meta.name in tables:
        with engine.connect() as connection:
            version = connection.execute(sa.select(schema.meta.c.schema_version)).scalar()
    if not isinstance(version, int | None) or (version is not None and version < 1):
        raise foreign(url, f"the version in {schema.meta.name} is {shown(version)}")
    if version is not None and version > schema.SCHEMA_VERSION:
        raise UsageError(
            f"the database {display_url(url)} was made by a newer tune"
            f" (schema {version}, this one knows {schema.SCHEMA_VERSION})",
            "update tune, or choose another database with --storage FILE",
        )
    return version


def _prepare_tables(engine: Engine, url: str, *, create: bool) -> None:
    version = _stored_version(engine, url)
    if not create and version is None:
        raise UsageError(
            f"the database {display_url(url)} holds no studies of tune",
            "run tune first, or name another database with --storage FILE",
        )
    if not create and version == schema.SCHEMA_VERSION:
        return
    with engine.begin() as connection:
        for table in schema.metadata.sorted_tables:
            connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(sa.schema.CreateIndex(index, if_not_exists=True))
    if version is not None and version < schema.SCHEMA_VERSION:
        _upgrade(engine)
    _write_version(engine)


def _upgrade(engine: Engine) -> None:
    """Bring the tables of an older version up to date: what came later may be null."""
    for table in schema.metadata.sorted_tables:
        there = _columns(engine, table)
        for column in (each for each in table.columns if each.name not in there):
            kind = column.type.compile(engine.dialect)
            statement = f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"
            try:
                with engine.begin() as connection:
                    connection.execute(sa.text(statement))
            except sa.exc.DatabaseError:
                # Another process that opens the database may have been quicker.
                if column.name not in _columns(engine, table):
                    raise
    # Versions 3 and 4 wrote an exclusion as a text, in the column ``disturbed``.
    table = schema.launches
    if "disturbed" in _columns(engine, table):
        old = sa.text(f"SELECT id, disturbed FROM {table.name} WHERE disturbed IS NOT NULL")
        with engine.begin() as connection:
            for key, text in connection.execute(old).all():
                why = codec.dumps(Exclusion(ExclusionKind.INTERFERENCE, text))
                mine = sa.update(table).where(table.c.id == key, table.c.exclusion.is_(None))
                connection.execute(mine.values(exclusion=why))
    # Versions before 6 called a result that was only unknown so, and knew one way to confirm.
    studies = schema.studies
    with engine.begin() as connection:
        for column, before, after in (
            (studies.c.conclusion, "no significant gain", "inconclusive"),
            (studies.c.finding, '"no significant gain"', '"inconclusive"'),
            (studies.c.spec, '"confirm":true', '"confirm":"auto"'),
            (studies.c.spec, '"confirm":false', '"confirm":"none"'),
        ):
            renamed = sa.func.replace(column, before, after)
            connection.execute(sa.update(studies).values({column: renamed}))


def _columns(engine: Engine, table: sa.Table) -> set[str]:
    return {column["name"] for column in sa.inspect(engine).get_columns(table.name)}


def _write_version(engine: Engine) -> None:
    """Write the version; this also shows that the database can be written.

    The time makes it a change: SQLite does not touch the file for a row that stays as it is.
    """
    values = {"schema_version": schema.SCHEMA_VERSION, "opened_at": now()}
    with engine.begin() as connection:
        if connection.execute(sa.update(schema.meta).values(values)).rowcount:
            return
    with suppress(sa.exc.IntegrityError), engine.begin() as connection:
        # The error says that another process wrote the same row in the meantime.
        connection.execute(sa.insert(schema.meta).values(id=1, **values))
