"""Serves the reports and optuna-dashboard, which knows no users, to those who know the token.

It listens on loopback by default, and :func:`tuner.results.dashboard.access.guarded` checks each
request.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import logging
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.model.errors import BusyError, UsageError
from tuner.results.dashboard import access
from tuner.results.dashboard.annotations import IMPORTANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: Seconds of silence after which waitress ends a connection, and how often it looks for one. More
#: half-sent requests than there are places for keep others out for no longer.
SILENCE_S, LOOK_S = 5, 1

#: Connections that are held at once; more wait in the kernel's queue.
MOST_CONNECTIONS = 128

#: Where the reports are, by the study's name; at ``/`` that of the latest.
REPORTS = "/report/"
#: Where optuna-dashboard is.
HOME = "/dashboard/"

_IMPORTANCES = re.compile(r"/api/studies/([0-9]{1,18})/param_importances")


@dataclass(frozen=True)
class DashboardServer:
    """A dashboard that holds its port; :meth:`serve` answers until it is interrupted.

    Attributes:
        page: Its address, without the token.
        token: What a request must know.
        is_wide: Other machines can reach it.
    """

    listener: Any  # waitress brings no types
    page: str
    token: str = field(repr=False)
    is_wide: bool

    @property
    def url(self) -> str:
        """The address that lets a browser in."""
        return f"{self.page}?token={self.token}"

    def __enter__(self) -> DashboardServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.task_dispatcher.shutdown()
        self.listener.close()

    def serve(self) -> None:
        """Answer requests until Ctrl-C, which ends it quietly."""
        self.listener.run()

    def stop(self) -> None:
        """End :meth:`serve`, from another thread."""
        self.listener.trigger.pull_trigger(self.listener._map.clear)


def bind(
    url: str,
    report_of: Callable[[str | None], str],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
) -> DashboardServer:
    """Take the port; nothing is served yet.

    Args:
        url: The database to show.
        report_of: The page of a study, of the latest one if none is named; ``UsageError`` if
            there is no such study.
        host: An IPv4 address or a name of this machine.
        port: The port; 0 takes any that is free.
        token: The user's own; a new one if there is none.

    Raises:
        UsageError: No address of this machine, a port that needs more rights, a bad token.
        BusyError: Another program has the port.
    """
    token = access.token_of(token)
    taken = _listening(host, port)
    try:
        import waitress
        from optuna_dashboard import wsgi

        from tuner.store.database import optunas_storage

        address, number = taken.getsockname()
        shown = socket.gethostname() if address == "0.0.0.0" else host
        wide = not ipaddress.ip_address(address).is_loopback
        storage = optunas_storage(url)
        logging.getLogger("waitress").setLevel(logging.ERROR)  # a queue is not news
        listener = waitress.create_server(
            access.guarded(_with_ours(wsgi(storage), storage, report_of), token),
            sockets=[taken],
            threads=8,
            connection_limit=MOST_CONNECTIONS,
            channel_timeout=SILENCE_S,
            cleanup_interval=LOOK_S,
            max_request_body_size=1 << 16,  # no request that is answered has a body
            ident=None,
        )
    except BaseException:
        taken.close()
        raise
    return DashboardServer(listener, f"http://{shown}:{number}/", token, wide)


def _with_ours(
    app: WSGIApplication, storage: Any, report_of: Callable[[str | None], str]
) -> WSGIApplication:
    """The application with our reports, and our importance of the knobs.

    Its own importance is computed from other data, so the two would contradict each other.
    """

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/" or path.startswith(REPORTS):
            try:
                name = path.removeprefix(REPORTS).strip("/") or None
                status, page = "200 OK", report_of(name).encode()
            except UsageError as error:
                status = "404 Not Found"
                page = access.message_page("No report", f"{error}: {error.hint}")
            start_response(status, [access.HTML])
            return [page]
        match = _IMPORTANCES.fullmatch(path)
        if match is not None:
            with contextlib.suppress(KeyError):  # no such study: the application says so
                ours = storage.get_study_system_attrs(int(match[1])).get(IMPORTANCE, {})
                rows = [
                    {"name": name, "importance": share, "distribution": "CategoricalDistribution"}
                    for name, share in ours.items()
                ]
                start_response("200 OK", [("Content-Type", "application/json")])
                return [json.dumps({"param_importances": [rows]}).encode()]
        return app(environ, start_response)

    return answered


def _listening(host: str, port: int) -> socket.socket:
    """A socket that holds the port."""
    if not host or ":" in host:  # all addresses, and IPv6, to the socket
        raise UsageError(
            f"--host {host!r} is not an IPv4 address or a name",
            "--host 0.0.0.0: every address",
        )
    try:
        return socket.create_server((host, port), backlog=MOST_CONNECTIONS)
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
