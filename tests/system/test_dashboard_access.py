"""Strangers at the dashboard: every route of it, for every kind of them, over real connections."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard_site import Site, assert_told_nothing, made_database, sent, standing
from tests.serving import Answer, ask

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_database(tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Site]:
    with standing(database) as found:
        yield found


def contents(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = list(connection.iterdump())
    connection.close()
    return found


def test_the_routes_are_all_of_them(site: Site) -> None:
    assert len(site.routes) >= 30
    for method, path in site.routes:
        assert "<" not in path
        site.app.match({"REQUEST_METHOD": method, "PATH_INFO": path.rstrip("/")})
    for route in (("GET", "/api/studies/1"), ("DELETE", "/api/studies/1"), ("GET", "/csv/1")):
        assert route in site.routes


#: Those who do not know the token, or show it where it does not belong.
UNKNOWN: dict[str, dict[str, str]] = {
    "nothing": {},
    "empty bearer": {"Authorization": "Bearer "},
    "wrong bearer": {"Authorization": "Bearer " + "x" * 43},
    "half of it": {"Authorization": "Bearer {half}"},
    "more than it": {"Authorization": "Bearer {token}x"},
    "other case": {"Authorization": "Bearer {swapped}"},
    "no ASCII": {"Authorization": "Bearer \xe9{token}"},
    "basic": {"Authorization": "Basic {basic}"},
    "basic with it": {"Authorization": "Basic {token}"},
    "no scheme": {"Authorization": "{token}"},
    "empty cookie": {"Cookie": "tune_dashboard_{port}="},
    "wrong cookie": {"Cookie": "tune_dashboard_{port}=" + "x" * 43},
    "half a cookie": {"Cookie": "tune_dashboard_{port}={half}"},
    "cookie of another port": {"Cookie": "tune_dashboard_1={token}"},
    "cookie of another name": {"Cookie": "token={token}; tune_dashboard_={token}"},
    "cookie without a name": {"Cookie": "{token}"},
    "header of another name": {"X-Token": "{token}", "X-XSRFToken": "{token}"},
    "referer": {"Referer": "http://{address}/dashboard/?token={token}"},
}

#: Those who know the token, or whose browser does, and come from elsewhere.
FOREIGN: dict[str, dict[str, str]] = {
    "host of a site": {"Host": "evil.example"},
    "host of a site, this port": {"Host": "evil.example:{port}"},
    "host that begins like ours": {"Host": "127.0.0.1.evil.example:{port}"},
    "host that ends like ours": {"Host": "evil.localhost:{port}"},
    "host with a user": {"Host": "127.0.0.1@evil.example"},
    "host with our address as user": {"Host": "evil.example@127.0.0.1:{port}"},
    "two hosts": {"Host": "127.0.0.1:{port},evil.example"},
    "no host": {"Host": ""},
    "this machine's name": {"Host": "{here}.evil:{port}"},
    "another address": {"Host": "169.254.169.254:{port}"},
    "every address": {"Host": "0.0.0.0:{port}"},
    "origin of a site": {"Origin": "https://evil.example"},
    "origin null": {"Origin": "null"},
    "empty origin": {"Origin": ""},
    "origin of another port": {"Origin": "http://127.0.0.1:1"},
    "origin without the port": {"Origin": "http://127.0.0.1"},
    "origin of another scheme": {"Origin": "https://{address}"},
    "origin of another name": {"Origin": "http://localhost:{port}"},
    "origin that begins like ours": {"Origin": "http://{address}.evil.example"},
    "a rebound name, its own origin": {
        "Host": "evil.example:{port}",
        "Origin": "http://evil.example:{port}",
        "Sec-Fetch-Site": "same-origin",
    },
    "script of a site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "script of another port": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
}


@pytest.mark.parametrize("who", [*UNKNOWN, *FOREIGN])
def test_no_route_tells_or_does_anything(site: Site, who: str) -> None:
    words, before = site.words(), contents(site.database)
    known = {"Authorization": "Bearer {token}", "Cookie": "tune_dashboard_{port}={token}"}
    shown = UNKNOWN[who] if who in UNKNOWN else known | FOREIGN[who]
    headers = {name: value.format(**words) for name, value in shown.items()}
    site.reached.clear()
    for method, path in site.routes:
        assert_told_nothing(sent(site, method, path, headers))
    assert site.reached == []
    assert contents(site.database) == before


@pytest.mark.parametrize("query", ["token=", "token=x", "key={token}", "token={half}", "{token}"])
def test_no_route_takes_another_query(site: Site, query: str) -> None:
    shown = query.format(**site.words())
    site.reached.clear()
    for method, path in site.routes:
        assert_told_nothing(sent(site, method, f"{path}?{shown}", {}))
    assert site.reached == []


def test_a_token_in_the_url_changes_nothing(site: Site) -> None:
    """A form of another program on this machine could carry it; it is for the first look only."""
    site.reached.clear()
    for method, path in site.routes:
        if method != "GET":
            assert_told_nothing(sent(site, method, f"{path}?token={site.server.token}", {}))
    assert site.reached == []


def test_two_tokens_in_the_url_are_none(site: Site) -> None:
    token = site.server.token
    assert_told_nothing(sent(site, "GET", f"/dashboard/?token={token}&token=x", {}))


def test_a_link_of_another_site_changes_nothing(site: Site) -> None:
    known = {"Authorization": f"Bearer {site.server.token}"}
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert_told_nothing(sent(site, "DELETE", "/api/studies/1", known | link))
    assert sent(site, "GET", "/dashboard", known | link).status == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "token", "cookie"])
def test_whoever_knows_the_token_reaches_every_route(site: Site, scheme: str) -> None:
    words = site.words()
    shown = {"Authorization": f"{scheme} {words['token']}"}
    if scheme == "cookie":  # beside those of other programs at the same address
        cookie = '_xsrf=2|a|b; x={{"; tune_dashboard_{port}=old; tune_dashboard_{port}={token}'
        shown = {"Cookie": cookie.format(**words), "Origin": f"http://{site.address}"}
    site.reached.clear()
    for method, path in site.routes:
        elsewhere = re.sub(r"\b1\b", "77", path)  # nothing is there to be changed
        body = "{}" if method != "GET" else None
        headers = {**shown, **({"Content-Type": "application/json"} if body else {})}
        answer = ask(site.address, elsewhere, method, body, headers)
        assert answer.status not in (401, 403)
        assert_kept_in(answer, path)
    assert len(site.reached) == len(site.routes)


def assert_kept_in(answer: Answer, path: str) -> None:
    """Other pages, frames and caches get nothing of it."""
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    unchanging = path.startswith(("/static/", "/favicon"))
    assert answer.headers["cache-control"] == ("private, no-cache" if unchanging else "no-store")
    assert not [name for name in answer.headers if name.startswith("access-control-")]
