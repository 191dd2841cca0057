"""The folders that launches write to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tuner.hosts.typed_paths import typed_path
from tuner.hosts.untrusted_files import make_folder
from tuner.model.errors import TunerError, UsageError
from tuner.store.failures import from_os_error
from tuner.store.urls import sqlite_path

#: Where outputs go when the database is a server.
DEFAULT_OUTPUTS = Path("studies")


def study_folder(outputs: Path | None, url: str, name: str) -> Path:
    """Return the folder of a study: below ``outputs``, else beside the SQLite file."""
    database = sqlite_path(url)
    base = outputs or (database.parent if database is not None else DEFAULT_OUTPUTS)
    return typed_path(base.absolute() / name, "--run-dir" if outputs else "--storage")


def prepare(folder: Path) -> None:
    """Make the study's folder and prove that it can be written; an error says why it cannot."""
    _require_no_link(folder)
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        raise not_written(f"the output folder {folder}", error) from error


def _require_no_link(folder: Path) -> None:
    """Refuse a study's folder that is a link: what lies elsewhere is not ours to change."""
    if folder.is_symlink():
        raise UsageError(
            f"the study's folder {folder} is a symbolic link",
            "remove the link, or choose another place with --run-dir FOLDER",
        )


def launch_folder(folder: Path, number: int) -> Path:
    """Return a folder for the launch that does not exist yet.

    A dead process, or a study of the same name in another database, may have left the usual one.
    """
    path, attempt = folder / f"{number:04d}", 1
    while path.exists():
        attempt += 1
        path = folder / f"{number:04d}-{attempt}"
    return path


def remove(launches: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Remove the folders of these launches, and the study's if nothing else is in it.

    Folders elsewhere that hold some of the launches are returned, and left as they are: a copied
    database still names the folders of the original.
    """
    _require_no_link(folder)
    folders_left: dict[Path, None] = {}  # as an ordered set
    for launch in map(Path, launches):
        if launch.parent.resolve() == folder.resolve():
            shutil.rmtree(launch, ignore_errors=True)
        elif launch.exists():
            folders_left[launch.parent] = None
    with suppress(OSError):  # something of another origin is in it
        folder.rmdir()
    return tuple(folders_left)


def not_written(what: str, error: OSError) -> TunerError:
    """Return the error for a file or folder below the output folder that cannot be written."""
    return from_os_error(error, what, "choose another place with --run-dir FOLDER")
