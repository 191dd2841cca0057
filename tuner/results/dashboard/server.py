"""Serves optuna-dashboard, which knows no users of its own, to those who know the token.

It can change data, so it listens on loopback where nothing else is asked for, and
:mod:`tuner.results.dashboard.guard` stands in front of it.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer

from tuner.model.errors import BusyError, UsageError
from tuner.results.dashboard import access
from tuner.results.dashboard.access import AccessPolicy
from tuner.results.dashboard.guard import guarded
from tuner.results.dashboard.listener import Handler, Listener

if TYPE_CHECKING:
    from types import TracebackType


@dataclass(frozen=True)
class Server:
    """A dashboard that holds its port; :meth:`serve` answers until it is interrupted.

    Attributes:
        page: Its address, without the token.
        token: What a request must know.
        is_wide: Other machines can reach it.
    """

    listener: WSGIServer
    page: str
    token: str = field(repr=False)
    is_wide: bool

    @property
    def url(self) -> str:
        """The address that lets a browser in."""
        return f"{self.page}?token={self.token}"

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.server_close()

    def serve(self) -> None:
        """Answer requests until Ctrl-C, which ends it quietly."""
        try:
            self.listener.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return


def bind(url: str, host: str = "127.0.0.1", port: int = 8080, token: str | None = None) -> Server:
    """Take the port; nothing is served yet.

    Args:
        url: The database to show.
        host: An IPv4 address or a name of this machine.
        port: The port; 0 takes any that is free.
        token: The user's own; a new one where there is none.

    Raises:
        UsageError: No address of this machine, a port that needs more rights, a bad token.
        BusyError: Another program has the port.
    """
    token = access.token_of(token)
    listener = _listening(host, port)
    try:
        from optuna_dashboard import wsgi

        from tuner.study.optuna_trials import open_storage

        address, number = listener.socket.getsockname()
        any_address = address == "0.0.0.0"
        wide = not access.is_loopback(address)
        shown = socket.gethostname() if any_address else host
        names = {host, address, shown, *([listener.server_name] if wide else [])}
        door = AccessPolicy(token, frozenset(name.lower() for name in names), any_address)
        listener.set_app(guarded(wsgi(open_storage(url)), door))
    except BaseException:
        listener.server_close()
        raise
    return Server(listener, f"http://{shown}:{number}/dashboard/", token, wide)


def _listening(host: str, port: int) -> Listener:
    """A server that holds the port and has nothing to serve yet."""
    if not host or ":" in host:  # all addresses, and IPv6, to the socket
        raise UsageError(
            f"--host {host!r} is no IPv4 address and no name", "--host 0.0.0.0: every address"
        )
    try:
        return Listener((host, port), Handler)
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
