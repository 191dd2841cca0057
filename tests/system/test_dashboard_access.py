"""Strangers at the dashboard: every route of it, for every kind of them, over real connections."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.light_trainer import MAIN
from tests.scripts import python_script
from tests.serving import Answer, ask, serving
from tests.study_surface import CONFIRMED, FakeRunner
from tuner.dashboard import access, listener
from tuner.dashboard.server import Server
from tuner.study import tune

pytestmark = pytest.mark.system

#: A value for each part of a path; the study exists, so that an open route would tell or change it.
PARTS = {
    "study_id": "1",
    "trial_id": "1",
    "artifact_id": "abc",
    "plot_type": "contour",
    "history_id": "1",
    "filename": "bundle.js",
    "": "/",
}

#: Does something on any route that takes a body.
BODY = json.dumps(
    {
        "study_name": "taken",
        "directions": ["minimize"],
        "body": "taken",
        "version": 9,
        "state": "Fail",
        "user_attrs": {"taken": 1},
    }
)

#: All that a refused request is told.
SAID = (
    "the dashboard does not answer to this name\n",
    "the dashboard answers its own pages only\n",
)


@dataclass
class Site:
    """A dashboard that answers, and what came as far as the application behind its guard."""

    server: Server
    database: Path
    routes: list[tuple[str, str]]
    app: Any
    reached: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return urlsplit(self.server.page).netloc

    def words(self) -> dict[str, str]:
        """What the headers of a stranger are made of."""
        token = self.server.token
        return {
            "token": token,
            "half": token[:21],
            "swapped": token.swapcase(),
            "basic": base64.b64encode(f":{token}".encode()).decode(),
            "address": self.address,
            "port": self.address.partition(":")[2],
            "here": socket.gethostname(),
        }


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a study of a made-up machine."""
    folder = tmp_path_factory.mktemp("access")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        made = folder / "tune.db"
        tune(CONFIRMED, storage=str(made), outputs=folder / "outputs", run=FakeRunner())
    return made


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Site]:
    """The dashboard on it; the routes are those the application itself lists."""
    import optuna_dashboard

    real, apps, reached = optuna_dashboard.wsgi, [], []

    def noted(storage: Any) -> Any:
        apps.append(real(storage))

        def app(environ: Any, start: Any) -> Any:
            reached.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
            return apps[0](environ, start)

        return app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optuna_dashboard, "wsgi", noted)
        with serving(f"sqlite:///{database}") as server:
            routes = [(route.method, filled(route.rule)) for route in apps[0].routes]
            yield Site(server, database, routes, apps[0], reached)


def filled(rule: str) -> str:
    """A path that a route answers: ``/csv/<study_id:int>`` becomes ``/csv/1``."""
    return re.sub(r"<(\w*)(?::[^<>]*)?>", lambda found: PARTS[found[1]], rule)


def contents(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = list(connection.iterdump())
    connection.close()
    return found


def sent(site: Site, method: str, path: str, headers: dict[str, str]) -> Answer:
    body = BODY if method in ("POST", "PUT", "DELETE") else None
    kind = {"Content-Type": "application/json"} if body else {}
    return ask(site.address, path, method, body, {**kind, **headers})


def assert_told_nothing(answer: Answer) -> None:
    assert answer.status == 403
    assert answer.body in SAID or "open the URL that <code>tune dashboard</code>" in answer.body
    assert CONFIRMED.name not in answer.body
    assert "set-cookie" not in answer.headers
    assert "location" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control-")]


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
    monkeypatch.setattr(listener, "REQUEST_LIMIT_S", 0.5)
    known = {"Authorization": f"Bearer {site.server.token}"}
    said = b"GET / HTTP/1.1\r\nHost: x\r\n"
    body = (
        f"POST /api/studies HTTP/1.1\r\nHost: {site.address}\r\nContent-Length: 9\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {site.server.token}\r\n\r\n"
    ).encode()
    strangers = [connected(site, text) for text in (b"", said, body) for _ in range(5)]
    assert ask(site.address, "/api/studies", headers=known).status == 200
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


#: Run as another user: tries every route, and looks for the token where processes show things.
OTHER_USER = """
import http.client, json, os, sys
told = json.load(sys.stdin)
def ask(method, path):
    link = http.client.HTTPConnection(told["address"], timeout=30)
    link.request(method, path, told["body"], {"Content-Type": "application/json"})
    answer = link.getresponse()
    return [answer.status, answer.read().decode("utf-8", "replace")]
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("latin-1")
    except OSError as error:
        return type(error).__name__
ask("GET", "/nowhere")  # imports what this interpreter, maybe in root's home, has then
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(json.dumps({
    "uid": os.getuid(),
    "answers": [ask(*route) for route in told["routes"]],
    "files": {path: read(path) for path in told["files"]},
}))
"""


@dataclass
class Started:
    """A real ``tune dashboard``, and what its browser was called with."""

    process: subprocess.Popen[str]
    line: str
    browser_argv: str


@pytest.fixture
def started(database: Path, tmp_path: Path) -> Iterator[Started]:
    """It runs with a token of the user's own and opens a browser, which only notes its argv."""
    programs, noted = tmp_path / "bin", tmp_path / "argv"
    programs.mkdir()
    code = f"import os, sys\nopen({str(noted)!r} + '.new', 'w').write(repr(sys.argv))\n"
    code += f"os.rename({str(noted)!r} + '.new', {str(noted)!r})\n"
    (programs / "xdg-open").write_text(python_script(code))
    (programs / "xdg-open").chmod(0o755)
    search = f"{programs}{os.pathsep}{os.environ['PATH']}"
    argv = [sys.executable, "-c", MAIN, "dashboard", "--port", "0", "--storage", str(database)]
    with subprocess.Popen(
        [*argv, "--open"],
        cwd=tmp_path,
        env={**os.environ, "PATH": search, access.TOKEN_VARIABLE: OWN_TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        timer = threading.Timer(120, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            end_s = time.monotonic() + 60
            while not noted.exists() and time.monotonic() < end_s:
                time.sleep(0.05)
            yield Started(process, line, noted.read_text())
        finally:
            timer.cancel()
            process.kill()


OWN_TOKEN = "a-token-of-my-own_0123456789"


def test_another_user_of_the_machine_gets_nothing(started: Started, site: Site) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    address = re.search(r"http://(127\.0\.0\.1:\d+)/dashboard/", started.line)
    opened = re.search(r"/[^']*/open\.html", started.browser_argv)
    assert address is not None, started.line
    assert opened is not None, started.browser_argv
    shown = f"/proc/{started.process.pid}"
    hidden = [f"{shown}/environ", f"{shown}/mem", f"{shown}/fd/0", opened[0]]
    told = {
        "address": address[1],
        "routes": site.routes,
        "body": BODY,
        "files": [f"{shown}/cmdline", *hidden],
    }
    done = subprocess.run(
        [sys.executable, "-c", OTHER_USER],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert found["uid"] == 65534
    assert len(found["answers"]) == len(site.routes)
    for status, body in found["answers"]:
        assert_told_nothing(Answer(status, body, {}))
    assert "dashboard" in found["files"][f"{shown}/cmdline"]
    assert [found["files"][path] for path in hidden] == ["PermissionError"] * len(hidden)
    assert OWN_TOKEN not in done.stdout
    # All of that is there for the user itself.
    assert OWN_TOKEN in Path(f"{shown}/environ").read_text()
    assert f"url=http://{address[1]}/dashboard/?token={OWN_TOKEN}" in Path(opened[0]).read_text()


def test_a_token_of_the_users_own_is_repeated_nowhere(started: Started, database: Path) -> None:
    assert "/dashboard/?token=$TUNE_DASHBOARD_TOKEN" in started.line
    address = re.search(r"127\.0\.0\.1:\d+", started.line)
    assert address is not None
    known = {"Authorization": f"Bearer {OWN_TOKEN}"}
    assert ask(address[0], "/api/studies", headers=known).status == 200
    assert ask(address[0], f"/dashboard/?token={OWN_TOKEN}").status == 303
    assert ask(address[0], f"/nowhere?token={OWN_TOKEN}").status == 303
    opened = re.search(r"/[^']*/open\.html", started.browser_argv)
    assert opened is not None
    started.process.send_signal(signal.SIGINT)
    out, err = started.process.communicate(timeout=60)
    for text in (started.line, out, err, started.browser_argv):
        assert OWN_TOKEN not in text
    assert not Path(opened[0]).exists()
    for path in database.parent.iterdir():
        if path.is_file():
            assert OWN_TOKEN.encode() not in path.read_bytes()
