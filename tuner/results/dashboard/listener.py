"""The web server: a thread for each connection, and none is waited for very long."""

from __future__ import annotations

import contextlib
import io
import socket
import sys
import threading
import time
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

#: How long a whole request may take to come in, in seconds.
REQUEST_LIMIT_S = 20.0

#: How long a browser may take to read an answer, in seconds: the pages are 2 MB, ssh is slow.
ANSWER_LIMIT_S = 300.0

#: How many are served at once; more are turned away, so that files are left to be opened.
MOST_CONNECTIONS = 128


class Listener(ThreadingMixIn, WSGIServer):
    """A browser opens several connections at once; none may hold up the others or the end."""

    daemon_threads = True
    # An address in TIME_WAIT may be taken again, one that is in use may not.
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve in a thread of its own, where there is room."""
        if not self._room.acquire(blocking=False):
            self.close_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection, and give its room back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def shutdown_request(self, request: Any) -> None:
        """End a connection; a body that nobody read would turn the answer into a reset."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(1.0)
            for _ in range(64):
                if not request.recv(1 << 16):
                    break
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing to say of a browser that went away or was too slow."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(WSGIRequestHandler):
    """Reads with a deadline, and logs no requests: the terminal belongs to the command line."""

    def setup(self) -> None:
        """Read from the connection until the deadline."""
        super().setup()
        until = _Until(self.connection, time.monotonic() + REQUEST_LIMIT_S)
        self.rfile = io.BufferedReader(until)

    def log_message(self, *_: Any) -> None:
        """Say nothing: a request may have the token in its URL."""


class _Until(io.RawIOBase):
    """Reads a socket until a moment of the monotonic clock: one byte a second helps nobody."""

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._connection, self._deadline_s = connection, deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request did not come in time")
        self._connection.settimeout(left_s)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(ANSWER_LIMIT_S)
