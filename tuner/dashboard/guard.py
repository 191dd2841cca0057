"""Answers what a page of this machine asks, and nothing that another site's page asks.

A site can point a name of its own at 127.0.0.1 (DNS rebinding): its requests carry that name
as their host. It can also send a form to 127.0.0.1: its requests carry the site as their
origin. Neither is answered. Other programs of this machine can still do what they like.
"""

from __future__ import annotations

import io
import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: The methods whose body the application reads.
_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered: the HTTP status, and a line for who sent it."""

    status: str
    text: str


def guarded(app: WSGIApplication) -> WSGIApplication:
    """The application behind these checks."""

    def checked(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        refusal = foreign(environ) or unreadable(environ)
        if refusal is None:
            return app(environ, start_response)
        start_response(refusal.status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{refusal.text}\n".encode()]

    return checked


def foreign(environ: WSGIEnvironment) -> Refusal | None:
    """A refusal where the request was not meant for this machine, or comes from another site.

    The port may differ from ours (``ssh -L``), so only names are compared with ours; what a
    browser says of the page must be what it asks.
    """
    host = environ.get("HTTP_HOST", "")
    if not _is_loopback(host):
        return Refusal("403 Forbidden", "the dashboard answers to 127.0.0.1 and localhost only")
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return Refusal("403 Forbidden", "the dashboard answers its own pages only")
    return None


def unreadable(environ: WSGIEnvironment) -> Refusal | None:
    """A refusal where a body is no JSON object; the application would fail on any other.

    An empty body becomes an empty object. The body can be read once more after this.
    """
    if environ["REQUEST_METHOD"] not in _WITH_BODY:
        return None
    length = environ.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal():
        return Refusal("400 Bad Request", "the length of the body is no number")
    body = environ["wsgi.input"].read(int(length)) or b"{}"
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if int(length) and kind != "application/json":
        return Refusal("415 Unsupported Media Type", "the body must be JSON")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return Refusal("400 Bad Request", "the body must be a JSON object")
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"], environ["CONTENT_TYPE"] = str(len(body)), "application/json"
    return None


def _is_loopback(host: str) -> bool:
    """True for ``localhost:8080``, ``127.0.0.1`` and the like."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
