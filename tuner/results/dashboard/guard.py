"""The checks in front of the application: no refused request reaches it.

A refusal says nothing about any study. Headers on every answer keep it from other sites' pages,
from frames and from caches, and keep the page's address from other sites.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tuner.results.dashboard import access
from tuner.results.dashboard.access import AccessPolicy, Refusal

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Headers = list[tuple[str, str]]

#: Said by each answer. The policy is a second one beside the application's own: both hold.
_ALWAYS: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Content-Security-Policy", "frame-ancestors 'none'; form-action 'self'; base-uri 'none'"),
]

#: What holds no data: a browser may keep it, and asks whether it is still the same.
_UNCHANGING = ("/static/", "/favicon.ico")

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8">{head}<title>tune dashboard</title></head>
<body><p>{text}</p></body>
</html>
"""

_NO_TOKEN = (
    "This dashboard needs its token: open the URL that <code>tune dashboard</code> printed,"
    " with all that follows <code>?token=</code>."
)


def guarded(app: WSGIApplication, policy: AccessPolicy) -> WSGIApplication:
    """The application behind these checks, which come before anything of it runs."""

    def checked(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start = _careful(start_response, environ)
        refusal = access.foreign(environ, policy)
        if refusal is not None:
            return _refuse(start, refusal)
        if not (access.brings_token(environ, policy) or access.knows_token(environ, policy)):
            return _page(start, "403 Forbidden", _NO_TOKEN)
        if access.names_token(environ):
            return _enter(environ, start, policy)
        refusal = access.rejected(environ)
        if refusal is not None:
            return _refuse(start, refusal)
        environ.setdefault("HTTP_ACCEPT_ENCODING", "")  # the application fails without it
        return app(environ, start)

    return checked


def _careful(start_response: StartResponse, environ: WSGIEnvironment) -> StartResponse:
    """Starts an answer with our headers; those that open it to other sites are left out."""
    unchanging = environ.get("PATH_INFO", "").startswith(_UNCHANGING)
    ours = [*_ALWAYS, ("Cache-Control", "private, no-cache" if unchanging else "no-store")]

    def start(status: str, headers: Headers, *error: Any) -> Any:
        kept = [each for each in headers if not _opens(each[0].lower())]
        return start_response(status, kept + ours, *error)

    return start


def _opens(name: str) -> bool:
    return name.startswith("access-control-") or name == "cache-control"


def _refuse(start: StartResponse, refusal: Refusal) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8")]
    if refusal.status.startswith("405"):
        headers.append(("Allow", "GET, HEAD"))
    start(refusal.status, headers)
    return [f"{refusal.text}\n".encode()]


def _enter(environ: WSGIEnvironment, start: StartResponse, policy: AccessPolicy) -> Iterable[bytes]:
    """Keep the token as a cookie, and go on without it: no history or bookmark has it then.

    A browser that came by another site's link brings a strict cookie along only to where a
    page of ours sends it, so there it gets one that does.
    """
    target, kept = access.without_token(environ), ("Set-Cookie", access.cookie(environ, policy))
    if not access.is_cross_site(environ):
        start("303 See Other", [("Location", target), kept])
        return []
    shown = html.escape(target)
    head = f'<meta http-equiv="refresh" content="0; url={shown}">'
    return _page(start, "200 OK", f'<a href="{shown}">To the dashboard</a>', head, kept)


def _page(
    start: StartResponse, status: str, text: str, head: str = "", *headers: tuple[str, str]
) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/html; charset=utf-8"), *headers])
    return [_PAGE.format(head=head, text=text).encode()]
