"""``tune demo``: a small program that ships with the tool, tuned on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import console, exits, report, run
from tuner.cli.base import TYPED, TuneCommand
from tuner.cli.click_options import shared
from tuner.model.errors import UsageError

#: The folder of the demo, in the current one.
FOLDER = Path("tune-demo")


@click.command(
    "demo",
    cls=TuneCommand,
    help="Tune a small NumPy program that ships with tune, on this machine, in about 30 seconds."
    " It needs no MPI and no network. Database, launches and report are written to"
    f" ./{FOLDER}. It is the same as `tune --study demo --storage {FOLDER}/tune.db`, then"
    " `tune report`.",
    examples=(("tune demo", "measure, confirm, and write the report"),),
)
@shared("fresh", "wait", "quiet")
@click.pass_context
def command(ctx: click.Context, /, **flags: bool) -> int:
    """Tune the shipped study ``demo``, and write its report."""
    try:
        FOLDER.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the demo cannot write to ./{FOLDER}: {error.strerror}",
            "cd to a folder of yours, such as: cd $(mktemp -d)",
        ) from error
    place = ["--storage", str(FOLDER / "tune.db")]
    words = ["--study", "demo", *place, *(f"--{name}" for name, is_set in flags.items() if is_set)]
    ctx.meta[TYPED] = tuple(words)
    console.err(f"tune: the demo writes to ./{FOLDER}; it takes about 30 seconds")
    page = [*place, "-o", str(FOLDER / "report.html")]
    for step, arguments in ((run.command, words), (report.command, page)):
        with step.make_context(step.name, arguments, parent=ctx) as step_ctx:
            step.invoke(step_ctx)
    console.err(f"next: open ./{FOLDER}/report.html in a browser; your own program: tune init")
    return exits.OK
