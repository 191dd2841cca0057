"""``tune report``: a study as one page that works without a network."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand
from tuner.cli.click_options import option, shared, study_argument


@click.command(
    "report",
    cls=TuneCommand,
    help="Write a study as one HTML page with its figures (the latest study by default). The page"
    " needs no network.",
    examples=(
        ("tune report -o report.html", "the latest study"),
        ("tune report NAME -o - | ssh HOST 'cat > report.html'", "to stdout"),
    ),
)
@study_argument()
@option(
    "-o",
    "--output",
    "filename",
    metavar="FILE",
    type=click.Path(),
    default="report.html",
    show_default=True,
    help="Write to this file; -: to stdout.",
)
@shared("storage")
def command(study: str | None, filename: str, storage: str | None) -> None:
    """Write the page of one study."""
    from tuner.cli import outfile, stored
    from tuner.results.exporters import Export
    from tuner.results.report.page import report

    store = stored.open_store(storage)
    data = stored.with_telemetry(store, stored.load(store, study))
    text = report(data)
    if filename in ("-", "/dev/stdout"):
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        return
    outfile.write(Path(filename), Export(text=text))
    console.err(f"wrote {filename} ({len(text) / 1e6:.1f} MB, study {data.spec.name})")
