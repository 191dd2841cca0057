"""``tune export``: the result in a form that other programs take."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand
from tuner.cli.click_options import option, shared, study_argument
from tuner.results.exporters import SHIPPED


@click.command(
    "export",
    cls=TuneCommand,
    help="Export the best setting of a study (the latest by default).",
    examples=(
        ("tune export -o job.sh && ./job.sh", "run the whole job with the best setting"),
        ("tune export -o best.env && set -a && . ./best.env", "or docker run --env-file best.env"),
        ("tune export --format json | jq .best.setting", "for programs"),
        ("tune export --format mlflow", "log the study to the server of MLFLOW_TRACKING_URI"),
    ),
)
@study_argument()
@option(
    "--format",
    "-f",
    "format_name",
    metavar="|".join(SHIPPED),
    shell_complete=lambda _c, _p, text: [name for name in SHIPPED if name.startswith(text)],
    help="The format [by the file's suffix, else sh].",
)
@option(
    "-o",
    "--output",
    "filename",
    metavar="FILE",
    type=click.Path(),
    help="Write to this file instead of to stdout.",
)
@shared("storage")
def command(
    study: str | None, format_name: str | None, filename: str | None, storage: str | None
) -> None:
    """Export one study."""
    from tuner.cli import outfile, stored
    from tuner.results import exporters
    from tuner.results.claims import comparison

    to_stdout = filename in (None, "-", "/dev/stdout")
    name = format_name or exporters.format_of("" if to_stdout else str(filename))
    exporter = exporters.exporter_for(name)
    store = stored.open_store(storage)
    data = stored.with_telemetry(store, stored.load(store, study))
    with redirect_stdout(sys.stderr):  # only the export is for stdout, not what a library prints
        export = exporter(data)
    for warning in export.warnings:
        console.warn(warning)
    if data.result.best is not None and data.keeps_defaults:
        console.warn(f"{comparison(data.result)}; your defaults are handed over")
    if to_stdout:  # opening /dev/stdout would cut off `>> FILE`
        sys.stdout.flush()
        sys.stdout.buffer.write(export.text.encode("utf-8", "surrogateescape"))
        return
    outfile.write(Path(str(filename)), export)
    console.err(f"wrote {filename} ({name}, study {data.spec.name})")
