"""Stands in front of the application: a stranger's request does not reach it.

What is refused is answered without a word of any study. Answers carry headers that keep them
from other sites' pages, from frames, from caches, and the address of the page from other sites.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tuner.results.dashboard import access
from tuner.results.dashboard.access import AccessPolicy, Refusal
from tuner.results.dashboard.body import unreadable

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


def guarded(app: WSGIApplication, door: AccessPolicy) -> WSGIApplication:
    """The application behind these checks, which come before anything of it runs."""

    def checked(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start = _careful(start_response, environ)
        refusal = access.foreign(environ, door)
        if refusal is not None:
            return _refuse(start, refusal)
        if not (access.brings_token(environ, door) or access.knows_token(environ, door)):
            return _page(start, "403 Forbidden", _NO_TOKEN)
        if access.names_token(environ):
            return _enter(environ, start, door)
        refusal = access.unreadable_query(environ) or unreadable(environ)
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
    start(refusal.status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{refusal.text}\n".encode()]


def _enter(environ: WSGIEnvironment, start: StartResponse, door: AccessPolicy) -> Iterable[bytes]:
    """Keep the token as a cookie, and go on without it: no history or bookmark has it then.

    A browser that came by another site's link brings a strict cookie along only to where a
    page of ours sends it, so there it gets one that does.
    """
    target, kept = access.without_token(environ), ("Set-Cookie", access.cookie(environ, door))
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
