"""A dashboard that answers while a test runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tuner.dashboard.server import Server, bind


@contextmanager
def serving(url: str) -> Iterator[Server]:
    """Serve a database on any free port, in a thread."""
    with bind(url, port=0) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server._server.shutdown()  # what Ctrl-C does to the program
            thread.join()
