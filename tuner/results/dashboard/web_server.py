"""Serves the reports and optuna-dashboard, which knows no users, to those who know the token.

It listens on loopback by default, and :func:`tuner.results.dashboard.access.guarded` checks each
request.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.model.errors import BusyError, UsageError, missing_extra
from tuner.results.dashboard import access

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: Where the reports are, by the study's name; at ``/`` that of the latest.
REPORTS = "/report/"
#: Where optuna-dashboard is.
HOME = "/dashboard/"


@dataclass(frozen=True)
class DashboardServer:
    """A dashboard that holds its port."""

    listener: Any  # waitress brings no types
    page: str  # the address, without the token
    token: str = field(repr=False)  # what a request must know
    is_wide: bool  # other machines can reach it

    @property
    def url(self) -> str:
        """The address that lets a browser in."""
        return f"{self.page}?token={self.token}"

    def serve(self) -> None:
        """Answer requests until Ctrl-C, which ends it quietly."""
        self.listener.run()

    def stop(self) -> None:
        """End :meth:`serve` from another thread: waitress ends once its map of sockets is empty."""
        self.listener.trigger.pull_trigger(self.listener._map.clear)


@contextmanager
def bind(
    url: str,
    report_of: Callable[[str | None], str],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
) -> Iterator[DashboardServer]:
    """Hold the port (0: any that is free) to show the database at ``url``.

    ``report_of`` makes the page of a study, of the latest one if none is named, or raises a
    ``UsageError``. ``host`` is an IPv4 address or a name of this machine, ``token`` the user's own.

    Raises:
        UsageError: No address of this machine, a port that needs more rights, a bad token; or the
            extra ``dashboard`` is not installed.
        BusyError: Another program has the port.
    """
    try:
        import waitress
        from optuna_dashboard import wsgi
    except ImportError as error:
        raise missing_extra("tune dashboard", "dashboard", error) from error
    from tuner.store.database import optunas_storage

    token = access.token_of(token)
    with _bound_socket(host, port) as port_socket:
        address, bound_port = port_socket.getsockname()
        name = socket.gethostname() if address == "0.0.0.0" else host
        logging.getLogger("waitress").setLevel(logging.ERROR)  # no warnings of a queue
        listener = waitress.create_server(
            access.guarded(_with_reports(wsgi(optunas_storage(url)), report_of), token),
            sockets=[port_socket],
            threads=8,
            channel_timeout=5,  # half-sent requests keep others out for no longer, s
            cleanup_interval=1,
            max_request_body_size=1 << 16,  # no request that is answered has a body
            ident=None,
        )
        is_wide = not ipaddress.ip_address(address).is_loopback
        try:
            yield DashboardServer(listener, f"http://{name}:{bound_port}/", token, is_wide)
        finally:
            listener.task_dispatcher.shutdown()
            listener.close()


def _with_reports(app: WSGIApplication, report_of: Callable[[str | None], str]) -> WSGIApplication:
    """Return the application with our reports at ``/`` and ``/report/NAME``."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path != "/" and not path.startswith(REPORTS):
            return app(environ, start_response)
        try:
            name = path.removeprefix(REPORTS).strip("/") or None
            status, page = "200 OK", report_of(name).encode()
        except UsageError as error:
            status = "404 Not Found"
            page = access.message_page("No report", f"{error}: {error.hint}")
        start_response(status, [access.HTML])
        return [page]

    return answer


def _bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, which holds the port."""
    if not host or ":" in host:  # a socket takes "" for every address, and a colon for IPv6
        raise UsageError(
            f"--host {host!r} is not an IPv4 address or a name", "--host 0.0.0.0: every address"
        )
    try:
        return socket.create_server((host, port), backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                f"port {port} on {host} is in use",
                f"tune dashboard --port {port + 1}, or 0 for any",
            ) from error
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            "--host is an address of this machine; the ports above 1023 are free to use",
        ) from error
