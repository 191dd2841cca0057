"""``tune dashboard``: the studies in the browser."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from tuner.cli.base import TuneCommand
from tuner.cli.options import option, storage_option

if TYPE_CHECKING:
    from tuner.results.dashboard.web_server import DashboardServer


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
@option("--open", "open_browser", is_flag=True, help="Open the browser as well.")
@storage_option()
def command(port: int, host: str, open_browser: bool, storage: str | None) -> None:
    """Serve the dashboard until Ctrl-C."""
    from tuner.cli import console, stored
    from tuner.results.dashboard import access, annotate, web_server
    from tuner.results.report import report

    token = access.token_of(os.environ.get(access.TOKEN_VARIABLE))
    store = stored.open_store(storage)
    stored.chosen(store, None)

    def report_of(name: str | None) -> str:
        return report(stored.watched(store, stored.load(store, name)), web_server.HOME)

    with (
        _ended_as_by_ctrl_c(),
        web_server.bind(store.url, report_of, host=host, port=port, token=token) as pages,
    ):
        for summary in store.studies():
            annotate(store.url, stored.watched(store, stored.load(store, summary.name)))
        if pages.is_wide:
            console.warn(_wide(pages))
        console.out(f"dashboard at {_shown(pages)} (Ctrl-C ends it)")
        sys.stdout.flush()
        with _opener(pages.url) if open_browser else nullcontext() as address:
            if address is not None and click.launch(address):
                console.warn("no browser could be started: open the URL above")
            pages.serve()
    console.err("dashboard ended")


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and a closed terminal leave nothing behind either; `nohup` keeps them out."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _shown(pages: DashboardServer) -> str:
    """The URL to open; a token of the user's own is not repeated where output may be kept."""
    from tuner.results.dashboard.access import TOKEN_VARIABLE

    is_users_own = TOKEN_VARIABLE in os.environ
    return f"{pages.page}?token=${TOKEN_VARIABLE}" if is_users_own else pages.url


def _wide(pages: DashboardServer) -> str:
    """What it means to be reached from elsewhere."""
    from urllib.parse import urlsplit

    return (
        f"everybody who can reach {urlsplit(pages.page).netloc} and has the token can see the"
        " studies; there is no encryption, so that others on the network can read the token."
        " Without --host, ssh -L 8080:127.0.0.1:8080 THIS_HOST does the same in private"
    )


@contextmanager
def _opener(url: str) -> Iterator[str]:
    """The address of a file of this user's that leads to the URL.

    The browser's command line is shown to every user of the machine by ``ps``.
    """
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="tune-dashboard-") as folder:
        path = Path(folder) / "open.html"
        path.touch(mode=0o600)
        path.write_text(f'<meta http-equiv="refresh" content="0; url={url}">\n')
        yield path.as_uri()
