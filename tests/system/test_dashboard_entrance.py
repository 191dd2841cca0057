"""How the dashboard lets a browser in, and what it does not wait for."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.dashboard_site import Site, made_database, standing
from tests.serving import ask, serving
from tuner.results.dashboard import listener

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_database(tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Site]:
    with standing(database) as found:
        yield found


def test_the_first_visit_leaves_a_cookie_and_an_address_without_the_token(site: Site) -> None:
    first = ask(site.address, f"/dashboard/studies/1?a=b&token={site.server.token}&c=%26")
    assert (first.status, first.body) == (303, "")
    assert first.headers["location"] == "/dashboard/studies/1?a=b&c=%26"
    kept, *rules = first.headers["set-cookie"].split("; ")
    assert kept == f"tune_dashboard_{site.words()['port']}={site.server.token}"
    assert sorted(rules) == ["HttpOnly", "Path=/", "SameSite=Strict"]
    assert first.headers["referrer-policy"] == "no-referrer"
    assert first.headers["cache-control"] == "no-store"
    second = ask(site.address, first.headers["location"], headers={"Cookie": kept})
    assert second.status == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example", "http://evil.example/"])
def test_the_way_on_stays_here(site: Site, path: str) -> None:
    to = {"Host": site.address}
    first = ask(site.address, f"{path}?token={site.server.token}", headers=to)
    assert first.status == 303
    assert re.match(r"/(?![/\\])", first.headers["location"])
    assert "\\" not in first.headers["location"]


def test_a_link_of_another_site_goes_on_by_a_page_of_ours(site: Site) -> None:
    """A redirect would come without the strict cookie."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    path = f"/dashboard/%22%3E%3Cb%3E?token={site.server.token}"
    first = ask(site.address, path, headers=link)
    assert first.status == 200
    assert 'content="0; url=/dashboard/%22%3E%3Cb%3E"' in first.body
    assert site.server.token not in first.body
    assert site.server.token in first.headers["set-cookie"]


def test_a_wrong_token_in_the_url_goes_away_too(site: Site) -> None:
    """An old bookmark, in a browser that knows the token."""
    known = {"Cookie": "tune_dashboard_{port}={token}".format(**site.words())}
    answer = ask(site.address, "/dashboard/?token=old", headers=known)
    assert (answer.status, answer.headers["location"]) == (303, "/dashboard/")


def test_a_long_body_is_not_read(site: Site) -> None:
    known = {"Authorization": f"Bearer {site.server.token}", "Content-Type": "application/json"}
    for length in (str((1 << 20) + 1), "9" * 5000):
        found = ask(site.address, "/api/studies", "POST", "{", {**known, "Content-Length": length})
        assert found.status == 413
    long = json.dumps({"body": "x" * (1 << 20)})
    assert ask(site.address, "/api/studies/1/note", "PUT", long, known).status == 413


def closed(stranger: socket.socket) -> bool:
    """True where the other side has ended the connection; an answer before that is read."""
    stranger.settimeout(30)
    try:
        while stranger.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def connected(site: Site, text: bytes) -> socket.socket:
    host, _, port = site.address.partition(":")
    stranger = socket.create_connection((host, int(port)), timeout=30)
    stranger.sendall(text)
    return stranger


def test_slow_strangers_hold_nobody_up_and_are_sent_away(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listener, "REQUEST_LIMIT_S", 1.5)
    known = {"Authorization": f"Bearer {site.server.token}"}
    said = b"GET / HTTP/1.1\r\nHost: x\r\n"
    body = (
        f"POST /api/studies HTTP/1.1\r\nHost: {site.address}\r\nContent-Length: 9\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {site.server.token}\r\n\r\n"
    ).encode()
    strangers = [connected(site, text) for text in (b"", said, body) for _ in range(5)]
    assert answers_within(site, known, limit_s=60)
    assert all(closed(stranger) for stranger in strangers)
    for stranger in strangers:
        stranger.close()
    assert dripping_ends(connected(site, said))
    assert capfd.readouterr().err == ""


def dripping_ends(stranger: socket.socket) -> bool:
    """True where a byte now and then does not keep the connection."""
    end_s = time.monotonic() + 60
    with stranger:
        stranger.settimeout(0.1)
        while time.monotonic() < end_s:
            try:
                stranger.sendall(b"x")
                if not stranger.recv(100):
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
    return False


def test_too_many_strangers_are_turned_away(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(listener, "REQUEST_LIMIT_S", 600.0)
    with serving(f"sqlite:///{database}") as server:
        site = Site(server, database, [], None)
        first = [connected(site, b"") for _ in range(2)]
        third = connected(site, b"")
        assert closed(third)
        for stranger in (*first, third):
            stranger.close()
        known = {"Authorization": f"Bearer {server.token}"}
        assert answers_within(site, known, limit_s=60)


def answers_within(site: Site, headers: dict[str, str], limit_s: float) -> bool:
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        try:
            return ask(site.address, "/api/studies", headers=headers).status == 200
        except OSError:
            time.sleep(0.05)
    return False


def test_on_every_address_only_names_of_this_machine_are_answered(database: Path) -> None:
    with serving(f"sqlite:///{database}", "0.0.0.0") as server:
        assert server.is_wide
        port = urlsplit(server.page).port
        assert server.page == f"http://{socket.gethostname()}:{port}/dashboard/"
        known = {"Authorization": f"Bearer {server.token}"}
        for host, status in (
            (f"{socket.gethostname()}:{port}", 200),
            (f"{socket.gethostname().upper()}:{port}", 200),
            (f"127.0.0.1:{port}", 200),
            (f"192.0.2.7:{port}", 200),  # an address of ours that we do not know of
            (f"evil.example:{port}", 403),
            (f"192.0.2.7.evil.example:{port}", 403),
        ):
            found = ask(f"127.0.0.1:{port}", "/api/studies", headers={**known, "Host": host})
            assert found.status == status, host
            assert ask(f"127.0.0.1:{port}", "/", headers={"Host": host}).status == 403
