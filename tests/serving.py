"""A dashboard that answers while a test runs, and requests to send to it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from tuner.cli import stored
from tuner.results.dashboard.web_server import HOME, DashboardServer, bind
from tuner.results.report.page import report
from tuner.store.store import Store


@contextmanager
def serving(url: str) -> Iterator[DashboardServer]:
    """Serve a database on any free port, in a thread; its reports are those of the tool."""
    with (
        Store.open(url, create=False) as store,
        bind(url, lambda name: report(stored.load(store, name), HOME), port=0) as server,
    ):
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()


class Answer(NamedTuple):
    """What came back; the headers' names are in lower case."""

    status: int
    body: str
    headers: dict[str, str]


def ask(
    address: str,
    path: str,
    method: str = "GET",
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request to ``127.0.0.1:PORT``, as it is: redirects are not followed."""
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, answer.read().decode("utf-8", "replace"), found)
    finally:
        connection.close()
