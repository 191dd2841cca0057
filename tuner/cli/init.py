"""``tune init``: a study file with comments, to be edited."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tuner.cli.base import TuneCommand
from tuner.cli.options import option


@click.command(
    "init",
    cls=TuneCommand,
    help="Write a study file with comments; -: to stdout. Without --study, `tune` uses"
    " tune.toml in the current folder.",
    examples=(("tune init && $EDITOR tune.toml && tune", "from no file to the first study"),),
)
@click.argument("file", required=False, default="tune.toml", type=click.Path())
@option("--force", is_flag=True, help="Overwrite a file that exists.")
def command(file: str, force: bool) -> None:
    """Write a study file."""
    from tuner.cli import console, outfile
    from tuner.config.study_file import template
    from tuner.model.errors import UsageError
    from tuner.results.exporters import Export

    if file in ("-", "/dev/stdout"):
        sys.stdout.write(template("tune"))
        return
    path = Path(file)
    if path.exists() and not force:
        raise UsageError(f"{file} exists already", "name another file, or add --force")
    outfile.write(path, Export(text=template(path.stem)))
    study = "" if file == "tune.toml" else f" --study {file}"
    console.err(f"wrote {file}; edit its command, then: tune{study}")
