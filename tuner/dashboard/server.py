"""Serves optuna-dashboard to the browsers of this machine.

It has no authentication and can change data, so it listens on a loopback address only, and
:mod:`tuner.dashboard.guard` keeps other sites' pages away from it.
"""

from __future__ import annotations

import errno
import ipaddress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tuner.dashboard.guard import guarded
from tuner.errors import BusyError, UsageError

if TYPE_CHECKING:
    from types import TracebackType


class _Threads(ThreadingMixIn, WSGIServer):
    """A browser opens several connections at once; none may hold up the end."""

    daemon_threads = True
    # An address in TIME_WAIT may be taken again, one that is in use may not.
    allow_reuse_address = True


class _Silent(WSGIRequestHandler):
    """Logs no requests: the terminal belongs to the command line."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Server:
    """A dashboard that holds its port; :meth:`serve` answers until it is interrupted."""

    def __init__(self, server: WSGIServer, host: str) -> None:
        self._server = server
        self.url = f"http://{host}:{server.server_port}/dashboard/"

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.server_close()

    def serve(self) -> None:
        """Answer requests until Ctrl-C, which ends it quietly."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return


def bind(url: str, host: str = "127.0.0.1", port: int = 8080) -> Server:
    """Take the port; nothing is served yet.

    Args:
        url: The database to show.
        host: A loopback address of this machine.
        port: The port; 0 takes any that is free.

    Raises:
        UsageError: Not a loopback address, or a port that needs more rights.
        BusyError: Another program has the port.
    """
    check_loopback(host)
    from optuna_dashboard import wsgi

    from tuner.study.attach import open_storage

    app = guarded(wsgi(open_storage(url)))
    try:
        server = make_server(host, port, app, server_class=_Threads, handler_class=_Silent)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                f"port {port} on {host} is in use",
                f"tune dashboard --port {port + 1}, or 0 for any",
            ) from error
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}", "try --port 8080"
        ) from error
    assert isinstance(server, WSGIServer)
    return Server(server, host)


def check_loopback(host: str) -> None:
    """Refuse every address that another machine could reach.

    Raises:
        UsageError: Not an IPv4 loopback address.
    """
    if host == "localhost":
        return
    try:
        is_loopback = ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise UsageError(
            f"--host {host}: the dashboard has no password and can change data,"
            " so it listens on this machine only",
            "leave --host out; from elsewhere: ssh -L 8080:127.0.0.1:8080 THIS_HOST",
        )
