"""Strangers at the dashboard: every route of it, for every kind of them, over real connections."""

from __future__ import annotations

import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.dashboard_site import Site, assert_told_nothing, made_database, sent, standing
from tests.serving import Answer, ask, serving
from tuner.results.dashboard import server as servers

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


@pytest.mark.parametrize("who", UNKNOWN)
def test_no_route_tells_or_does_anything(site: Site, who: str) -> None:
    words, before = site.words(), contents(site.database)
    headers = {name: value.format(**words) for name, value in UNKNOWN[who].items()}
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


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "token", "cookie"])
def test_who_knows_the_token_reads_all_and_changes_nothing(site: Site, scheme: str) -> None:
    words = site.words()
    shown = {"Authorization": f"{scheme} {words['token']}"}
    if scheme == "cookie":  # beside those of other programs at the same address
        cookie = '_xsrf=2|a|b; x={{"; tune_dashboard_{port}=old; tune_dashboard_{port}={token}'
        shown = {"Cookie": cookie.format(**words), "Origin": f"http://{site.address}"}
    site.reached.clear()
    before = contents(site.database)
    for method, path in site.routes:
        answer = sent(site, method, path, shown)
        if method == "GET":
            assert answer.status not in (401, 403, 405)
        else:
            assert answer.status == 405
            assert answer.body.startswith("the dashboard is read-only")
        assert_kept_in(answer)
    assert {line.partition(" ")[0] for line in site.reached} == {"GET"}
    assert contents(site.database) == before


def assert_kept_in(answer: Answer) -> None:
    """Other pages, frames and caches get nothing of it."""
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "private, no-cache"
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_the_first_visit_leaves_a_cookie_and_an_address_without_the_token(site: Site) -> None:
    first = ask(site.address, f"/dashboard/studies/1?a=b&token={site.server.token}&c=%26")
    assert (first.status, first.body) == (303, "")
    assert first.headers["location"] == "/dashboard/studies/1?a=b&c=%26"
    kept, *rules = first.headers["set-cookie"].split("; ")
    assert kept == f"tune_dashboard_{site.words()['port']}={site.server.token}"
    assert sorted(rules) == ["HttpOnly", "Path=/", "SameSite=Lax"]
    assert first.headers["referrer-policy"] == "no-referrer"
    second = ask(site.address, first.headers["location"], headers={"Cookie": kept})
    assert second.status == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example", "http://evil.example/"])
def test_the_way_on_stays_here(site: Site, path: str) -> None:
    to = {"Host": site.address}
    first = ask(site.address, f"{path}?token={site.server.token}", headers=to)
    assert first.status == 303
    assert re.match(r"/(?![/\\])", first.headers["location"])
    assert "\\" not in first.headers["location"]


def test_silent_strangers_hold_nobody_up_and_are_sent_away(
    database: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(servers, "SILENCE_S", 1)
    with serving(f"sqlite:///{database}") as server:
        host, _, port = urlsplit(server.page).netloc.partition(":")
        strangers = []
        for text in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n") * 10:
            stranger = socket.create_connection((host, int(port)), timeout=60)
            stranger.sendall(text)
            strangers.append(stranger)
        known = {"Authorization": f"Bearer {server.token}"}
        assert ask(f"{host}:{port}", "/api/studies", headers=known).status == 200
        server.listener.next_channel_cleanup = 0  # waitress looks every 30 seconds
        time.sleep(2.5)
        server.listener.next_channel_cleanup = 0
        assert ask(f"{host}:{port}", "/api/studies", headers=known).status == 200
        for stranger in strangers:
            with stranger:
                assert stranger.recv(100) == b""
    assert capfd.readouterr().err == ""


def test_a_long_body_is_not_read(site: Site) -> None:
    known = {"Authorization": f"Bearer {site.server.token}", "Content-Type": "application/json"}
    assert ask(site.address, "/api/studies", "POST", "x" * (1 << 17), known).status == 413


def test_on_every_address_the_page_has_this_machines_name(database: Path) -> None:
    with serving(f"sqlite:///{database}", "0.0.0.0") as server:
        assert server.is_wide
        port = urlsplit(server.page).port
        assert server.page == f"http://{socket.gethostname()}:{port}/dashboard/"
        known = {"Authorization": f"Bearer {server.token}"}
        assert ask(f"127.0.0.1:{port}", "/api/studies", headers=known).status == 200
        assert ask(f"127.0.0.1:{port}", "/").status == 403
