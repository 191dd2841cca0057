"""``tune dashboard``: the studies in the browser."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand
from tuner.cli.click_options import option, shared


@click.command(
    "dashboard",
    cls=TuneCommand,
    help="Serve the report of each study and optuna-dashboard on this machine."
    " The printed URL has the token that opens it: a new one each time, or the value of"
    " TUNE_DASHBOARD_TOKEN.",
    examples=(
        ("tune dashboard", "then open the printed URL; Ctrl-C ends it"),
        ("ssh -L 8080:127.0.0.1:8080 HOST", "on your own machine, where HOST runs the dashboard"),
    ),
)
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    metavar="PORT",
    help="Port [8080]; 0: any free one.",
)
@option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Listen on this address or name [127.0.0.1]; 0.0.0.0: on all. There is no encryption:"
    " prefer ssh -L.",
)
@shared("storage")
def command(port: int, host: str, storage: str | None) -> None:
    """Serve the dashboard until Ctrl-C."""
    from tuner.cli import stored
    from tuner.results.dashboard import access, web_server
    from tuner.results.report.page import report

    users_token = os.environ.get(access.TOKEN_VARIABLE)
    token = access.token_of(users_token)
    store = stored.open_store(storage)
    stored.name_of(store, None)

    def report_of(name: str | None) -> str:
        return report(stored.with_telemetry(store, stored.load(store, name)), web_server.HOME)

    with web_server.bind(store.url, report_of, host=host, port=port, token=token) as server:
        if server.is_wide:
            console.warn(
                f"everybody who can reach {urlsplit(server.page).netloc} and has the token can see"
                " the studies; there is no encryption, so that others on the network can read the"
                " token. Without --host, ssh -L 8080:127.0.0.1:8080 THIS_HOST does the same in"
                " private"
            )
        # A token of the user's own is not repeated where output may be kept.
        url = server.url if users_token is None else f"{server.page}?token=${access.TOKEN_VARIABLE}"
        console.out(f"dashboard at {url} (Ctrl-C ends it)")
        sys.stdout.flush()
        server.serve()
    console.err("dashboard ended")
