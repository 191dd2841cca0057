"""Who may read the dashboard: whoever knows its token. Nobody can change anything.

Loopback is not private: on a shared node every user reaches its ports, and a browser carries any
site's requests there. The token stops both. Another user does not know it. Another site's page
cannot read an answer, and a site that points a name of its own at this machine (DNS rebinding)
gets no cookie, because a browser keeps the cookie for our name only.

Cookies know no ports: if the same browser opens another user's server at the same address, that
server sees the token. Jupyter is no different.
"""

from __future__ import annotations

import hmac
import html
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Headers = list[tuple[str, str]]

HTML = ("Content-Type", "text/html; charset=utf-8")

#: The variable with a token of the user's own. Never an option: ``ps`` shows those to everybody.
TOKEN_VARIABLE = "TUNE_DASHBOARD_TOKEN"

#: A token that a URL and a cookie carry unchanged; fewer than 16 characters could be guessed.
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,256}")

#: Sent with each answer: no other site's page reads, frames or embeds it, or learns our URL.
_PRIVATE: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "private, no-cache"),
]

_NO_TOKEN = (
    "This dashboard needs its token: open the URL that `tune dashboard` printed, with all that"
    " follows ?token="
)


def message_page(title: str, text: str) -> bytes:
    """Return a page with a title, which is HTML, and a text."""
    head = '<!doctype html><html lang="en"><meta name="color-scheme" content="light dark">'
    main = f"<main><h1>{title}</h1><p>{html.escape(text)}</p></main>"
    return f"{head}<title>{title}</title>{main}".encode()


def token_of(users_token: str | None) -> str:
    """Return the user's token, of ``TUNE_DASHBOARD_TOKEN``, or else a new one of 256 bits.

    Raises:
        UsageError: It is too short, or has characters that a URL does not carry.
    """
    if users_token is None:
        return secrets.token_urlsafe(32)
    if not _TOKEN.fullmatch(users_token):
        raise UsageError(
            f"{TOKEN_VARIABLE} must have 16 to 256 letters, digits and characters of '-._~'",
            "leave it unset, and each start makes a token of its own",
        )
    return users_token


def guarded(app: WSGIApplication, token: str) -> WSGIApplication:
    """Return the application behind a check of the token: no refused request reaches it.

    The token comes in the URL of the first visit, then in a cookie, or in an ``Authorization``
    header.
    """

    text = ("Content-Type", "text/plain; charset=utf-8")

    def check_token(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start = _with_private_headers(start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start("405 Method Not Allowed", [("Allow", "GET, HEAD"), text])
            return [b"the dashboard is read-only: `tune` alone changes studies\n"]
        query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        in_url = [value for name, value in query if name == "token"]
        # The port is in the name of the cookie, so that two dashboards have one each (`ssh -L`).
        port = re.search(r":([0-9]{1,5})$", environ.get("HTTP_HOST", ""))
        cookie = f"tune_dashboard_{port[1] if port else 80}"
        tokens = [word.encode("utf-8", "replace") for word in _tokens_of(environ, cookie)]
        tokens += [word.encode("utf-8", "replace") for word in in_url[:1]]
        # The comparison takes a time that does not tell how much of the token is right.
        if not any(hmac.compare_digest(word, token.encode()) for word in tokens):
            start("403 Forbidden", [HTML])
            return [message_page("No access", _NO_TOKEN)]
        if in_url:  # go on without it: no history or bookmark has it then
            # One slash in front: two would name another host.
            path = quote(environ.get("PATH_INFO", "").encode("latin-1", "replace")).lstrip("/")
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            set_cookie = f"{cookie}={token}; HttpOnly; SameSite=Lax; Path=/"
            target = f"/{path}?{rest}" if rest else f"/{path}"
            start("303 See Other", [("Location", target), ("Set-Cookie", set_cookie)])
            return []
        if not all(re.fullmatch("[0-9]{1,9}", value) for name, value in query if name == "after"):
            start("400 Bad Request", [text])  # optuna-dashboard fails on them
            return [b"after must be a whole number\n"]
        environ.setdefault("HTTP_ACCEPT_ENCODING", "")  # optuna-dashboard fails without it
        return app(environ, start)

    return check_token


def _with_private_headers(start_response: StartResponse) -> StartResponse:
    """Add our headers to an answer, and leave out those that open it to other sites."""

    def start(status: str, headers: Headers, *error: Any) -> Any:
        private_names = {name.lower() for name, _ in _PRIVATE}
        other_headers = [
            (name, value)
            for name, value in headers
            if name.lower() not in private_names and not name.lower().startswith("access-control-")
        ]
        return start_response(status, other_headers + _PRIVATE, *error)

    return start


def _tokens_of(environ: WSGIEnvironment, cookie: str) -> Iterable[str]:
    """Yield the tokens of a request: that in its ``Authorization`` header, that in its cookie."""
    scheme, _, word = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() in ("bearer", "token"):
        yield word.strip()
    # Not http.cookies: it gives up at the first cookie of another program that it cannot read.
    for pair in environ.get("HTTP_COOKIE", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == cookie:
            yield value
