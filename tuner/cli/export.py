"""``tune export``: the result in a form that other programs take."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli.app import TuneCommand
from tuner.cli.options import option, storage_option, study_argument

if TYPE_CHECKING:
    from tuner.exporters import Export

#: Used where neither ``--format`` nor the file's suffix says one.
DEFAULT_FORMAT = "sh"


def _complete_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    formats = ("sh", "env", "json", "args", "csv", "md")
    return [name for name in formats if name.startswith(incomplete)]


@click.command(
    "export",
    cls=TuneCommand,
    help="Hand over the best setting of a study (the latest by default).",
    examples=(
        ("tune export -o job.sh && ./job.sh results", "run the whole job with the best setting"),
        ("tune export -o best.env && set -a && . ./best.env", "or docker run --env-file best.env"),
        ("tune export --format json | jq .best.setting", "for programs"),
    ),
)
@study_argument()
@option(
    "--format",
    "-f",
    "format_name",
    metavar="sh|env|json|args|csv|md",
    shell_complete=_complete_format,
    help="The format [by the file's suffix, else sh].",
)
@option(
    "-o",
    "--output",
    "filename",
    metavar="FILE",
    type=click.Path(),
    help="Write here instead of to stdout.",
)
@storage_option()
def command(
    study: str | None, format_name: str | None, filename: str | None, storage: str | None
) -> None:
    """Export one study."""
    from tuner import exporters
    from tuner.cli import console, stored

    name = format_name or exporters.format_of(filename or "") or DEFAULT_FORMAT
    exporter = exporters.exporter_for(name)
    data = stored.load(stored.open_store(storage), study)
    export = exporter(data)
    for warning in export.warnings:
        console.warn(warning)
    if data.result.best is not None and data.keeps_defaults:
        console.warn("nothing was faster than your defaults: this hands over the defaults")
    if filename is None or filename == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(export.text.encode("utf-8", "surrogateescape"))
        return
    write(Path(filename), export)
    console.err(f"wrote {filename} ({name}, study {data.spec.name})")


def write(path: Path, export: Export) -> None:
    """Write a file whole or not at all; a script becomes executable as far as umask lets it.

    Raises:
        UsageError: The folder is missing or cannot be written to.
    """
    import tempfile

    from tuner.errors import UsageError

    try:
        if path.is_dir():
            raise UsageError(f"-o {path} is a folder", "name a file in it")
        handle, draft = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", "make the folder, or name another file"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(export.text.encode("utf-8", "surrogateescape"))
            os.fchmod(file.fileno(), (0o777 if export.executable else 0o666) & ~_umask())
        Path(draft).replace(path)
    except OSError as error:
        Path(draft).unlink(missing_ok=True)
        raise UsageError(
            f"cannot write {path}: {error.strerror}", "free space, or name another file"
        ) from error


def _umask() -> int:
    """The umask, which can only be read by setting it; nothing else runs in this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
