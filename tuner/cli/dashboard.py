"""``tune dashboard``: the studies in the browser."""

from __future__ import annotations

import sys

import click

from tuner.cli.base import TuneCommand
from tuner.cli.options import option, storage_option


@click.command(
    "dashboard",
    cls=TuneCommand,
    help="Serve optuna-dashboard on this machine, with the result and a heat map of each study.",
    examples=(
        ("tune dashboard", "then open the printed address; Ctrl-C ends it"),
        ("ssh -L 8080:127.0.0.1:8080 HOST", "on your own machine, where HOST runs the dashboard"),
    ),
)
@option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any.")
@option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@option("--open", "open_browser", is_flag=True, help="Open the browser as well.")
@storage_option()
def command(port: int, host: str, open_browser: bool, storage: str | None) -> None:
    """Serve the dashboard until Ctrl-C."""
    from tuner.cli import console, stored
    from tuner.dashboard import annotate, server

    server.check_loopback(host)
    store = stored.open_store(storage)
    stored.chosen(store, None)
    with server.bind(store.url, host, port) as pages:
        for summary in store.studies():
            annotate(store.url, stored.load(store, summary.name))
        console.out(f"dashboard at {pages.url} (Ctrl-C ends it)")
        sys.stdout.flush()
        if open_browser:
            click.launch(pages.url)
        pages.serve()
    console.err("dashboard ended")
