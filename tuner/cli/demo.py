"""``tune demo``: a small program that ships with the tool, tuned on this machine."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
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
    """Tune the shipped study ``demo``, write its report, and open it if there is a display."""
    try:
        FOLDER.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the demo cannot write to ./{FOLDER}: {error.strerror}",
            "cd to a folder of yours, such as: cd $(mktemp -d)",
        ) from error
    place = ["--storage", str(FOLDER / "tune.db")]
    page = FOLDER / "report.html"
    words = ["--study", "demo", *place, *(f"--{name}" for name, is_set in flags.items() if is_set)]
    ctx.meta[TYPED] = tuple(words)
    console.err(f"tune: the demo writes to ./{FOLDER}; it takes about 30 seconds")
    for step, arguments in ((run.command, words), (report.command, [*place, "-o", str(page)])):
        with step.make_context(step.name, arguments, parent=ctx) as step_ctx:
            step.invoke(step_ctx)
    _open(page.resolve().as_uri())
    console.err("next: your own program: tune init")
    return exits.OK


def _open(url: str) -> None:
    """Open a page in the user's browser, if tune was typed at a terminal of a display."""
    has_display = bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    if not (has_display and sys.stdout.isatty()) or "SSH_CONNECTION" in os.environ:
        return
    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:  # it would hold the terminal
            browser.open(url)
