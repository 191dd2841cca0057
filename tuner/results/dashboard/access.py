"""Which requests reach the dashboard: those with its token, to its own name, from its own pages.

Loopback is not private: on a shared node every user reaches its ports, and a browser carries
any site's requests there. Three checks, each for another kind of stranger:

* the host, against a site that points a name of its own at this machine (DNS rebinding);
* the origin and what the browser says of the page, against other sites' forms and scripts;
* the token, against the machine's other users, who can send any header they like.

A browser keeps the token as a cookie. Cookies know no ports: a server of another user at the
same address sees it where its page is opened *in the same browser*; Jupyter is no different.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

#: The variable with a token of the user's own. Never an option: ``ps`` shows those to everybody.
TOKEN_VARIABLE = "TUNE_DASHBOARD_TOKEN"

#: What a URL and a cookie carry as it is; fewer than 16 characters could be guessed.
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,256}")

#: A name or an address, and the port a browser leaves out if it is 80.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered: the HTTP status, and a line for its sender."""

    status: str
    text: str


@dataclass(frozen=True)
class AccessPolicy:
    """Which requests are accepted.

    Attributes:
        token: The secret that a request must carry.
        names: Names and addresses of this dashboard, in lower case, beside those of loopback.
        any_address: The dashboard listens on all addresses, so any address is accepted as the
            host: only a name can be rebound.
    """

    token: str = field(repr=False)
    names: frozenset[str] = frozenset()
    any_address: bool = False


def token_of(given: str | None) -> str:
    """The token of a start: the user's own, else a new one of 256 bits.

    Args:
        given: What ``TUNE_DASHBOARD_TOKEN`` holds; ``None`` if it is not set.

    Raises:
        UsageError: It is too short, or has characters that a URL does not carry.
    """
    if given is None:
        return secrets.token_urlsafe(32)
    if not _TOKEN.fullmatch(given):
        raise UsageError(
            f"{TOKEN_VARIABLE} must have 16 to 256 letters, digits and characters of '-._~'",
            "leave it unset, and each start makes a token of its own",
        )
    return given


def foreign(environ: WSGIEnvironment, policy: AccessPolicy) -> Refusal | None:
    """A refusal if the request was not meant for this dashboard, or comes from another page.

    The port may differ from ours (``ssh -L``), so only names are compared with ours; what a
    browser says of the page must be what it asks.
    """
    host = environ.get("HTTP_HOST", "").lower()
    if not _is_ours(host, policy):
        return Refusal("403 Forbidden", "the dashboard does not answer to this name")
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin.lower() != f"http://{host}":
        return Refusal("403 Forbidden", "the dashboard answers its own pages only")
    if _is_foreign_page(environ) and not _is_link(environ):
        return Refusal("403 Forbidden", "the dashboard answers its own pages only")
    return None


def rejected(environ: WSGIEnvironment) -> Refusal | None:
    """A refusal if the request would change data, or if the application would fail on it.

    The application's "delete" would leave our own tables behind, so nothing can be changed here.
    """
    if not _only_looks(environ):
        text = "the dashboard is read-only: `tune` alone changes studies"
        return Refusal("405 Method Not Allowed", text)
    for name, value in _query(environ):
        if name in {"after", "limit"} and not (value.isascii() and value.isdecimal()):
            return Refusal("400 Bad Request", f"{name} must be a whole number")
    return None


def knows_token(environ: WSGIEnvironment, policy: AccessPolicy) -> bool:
    """True if the cookie or the ``Authorization`` header holds the token."""
    return any(_same(shown, policy.token) for shown in _shown(environ))


def brings_token(environ: WSGIEnvironment, policy: AccessPolicy) -> bool:
    """True if it stands in the URL: the first visit, which only looks at something."""
    shown = [value for name, value in _query(environ) if name == "token"]
    return _only_looks(environ) and len(shown) == 1 and _same(shown[0], policy.token)


def names_token(environ: WSGIEnvironment) -> bool:
    """True if the URL has a token, right or wrong, that need not stay there."""
    return _only_looks(environ) and any(name == "token" for name, _ in _query(environ))


def cookie(environ: WSGIEnvironment, policy: AccessPolicy) -> str:
    """The ``Set-Cookie`` header that keeps the token until the browser is closed."""
    return f"{_cookie_name(environ)}={policy.token}; HttpOnly; SameSite=Strict; Path=/"


def without_token(environ: WSGIEnvironment) -> str:
    """The same path and query without the token, for the browser to go on to.

    It has one slash in front: two would name another host.
    """
    path = quote(environ.get("PATH_INFO", "").encode("latin-1", "replace"))
    kept = [(name, value) for name, value in _query(environ) if name != "token"]
    return f"/{path.lstrip('/')}" + (f"?{urlencode(kept)}" if kept else "")


def is_cross_site(environ: WSGIEnvironment) -> bool:
    """True for a link on another site, or in a file: its redirects bring no cookie along."""
    return environ.get("HTTP_SEC_FETCH_SITE") == "cross-site"


def is_loopback(address: str) -> bool:
    """True for ``127.0.0.1`` and the like."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_ours(host: str, policy: AccessPolicy) -> bool:
    """True for ``localhost:8080``, ``127.0.0.1`` and the names the user gave."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1] or found[2]
    if name == "localhost" or is_loopback(name) or name in policy.names:
        return True
    return policy.any_address and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_foreign_page(environ: WSGIEnvironment) -> bool:
    """True if a browser says that a page of another site, or of another port, asks."""
    return environ.get("HTTP_SEC_FETCH_SITE", "none") not in ("none", "same-origin")


def _is_link(environ: WSGIEnvironment) -> bool:
    """True for a link that was followed: its answer is shown, and no page can read it."""
    return _only_looks(environ) and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"


def _only_looks(environ: WSGIEnvironment) -> bool:
    return environ["REQUEST_METHOD"] in ("GET", "HEAD")


def _shown(environ: WSGIEnvironment) -> Iterator[str]:
    """What stands where the token belongs."""
    scheme, _, word = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() in ("bearer", "token"):
        yield word.strip()
    name = _cookie_name(environ)
    # Not http.cookies: it gives up at the first cookie of another program that it cannot read.
    for pair in environ.get("HTTP_COOKIE", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == name:
            yield value


def _cookie_name(environ: WSGIEnvironment) -> str:
    """A name for each port the browser asks: two dashboards keep apart, also behind ``ssh -L``."""
    found = _HOST.fullmatch(environ.get("HTTP_HOST", ""))
    return f"tune_dashboard_{(found and found[3]) or 80}"


def _query(environ: WSGIEnvironment) -> list[tuple[str, str]]:
    return parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)


def _same(shown: str, token: str) -> bool:
    """Compared in a time that does not tell how much of it is right."""
    return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), token.encode())
