"""Strangers at the dashboard, every route of it, over real connections; other users; its token."""

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
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.light_trainer import MAIN, python_script
from tests.marked import eventually
from tests.serving import Answer, ask, serving
from tests.study_surface import CONFIRMED, FakeRunner, study_in
from tuner.results.dashboard import access
from tuner.results.dashboard import server as servers
from tuner.results.dashboard.server import DashboardServer

pytestmark = pytest.mark.system

#: A value for each part of a path; the study exists, so that an open route would tell or change it.
PARTS = {"study_id": "1", "trial_id": "1", "artifact_id": "abc", "plot_type": "contour",
         "history_id": "1", "filename": "bundle.js", "": "/"}  # fmt: skip

#: Does something on any route that takes a body.
BODY = json.dumps({"study_name": "taken", "directions": ["minimize"], "body": "taken",
                   "version": 9, "state": "Fail", "user_attrs": {"taken": 1}})  # fmt: skip


@dataclass
class Site:
    """A dashboard that answers, and what came as far as the application behind its guard."""

    server: DashboardServer
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
        }

    def sent(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        body = BODY if method in ("POST", "PUT", "DELETE") else None
        kind = {"Content-Type": "application/json"} if body else {}
        return ask(self.address, path, method, body, {**kind, **headers})


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a study of a synthetic machine."""
    folder = tmp_path_factory.mktemp("access")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        study_in(folder, FakeRunner(), CONFIRMED, outputs=folder / "outputs")
    return folder / "tune.db"


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Site]:
    """A dashboard; the routes are those that the application itself lists."""
    import optuna_dashboard

    real, apps, reached = optuna_dashboard.wsgi, [], []

    def noted(storage: Any) -> Any:
        apps.append(real(storage))

        def app(environ: Any, start: Any) -> Any:
            reached.append(environ["REQUEST_METHOD"])
            return apps[0](environ, start)

        return app

    def filled(rule: str) -> str:
        """A path that a route answers: ``/csv/<study_id:int>`` becomes ``/csv/1``."""
        return re.sub(r"<(\w*)(?::[^<>]*)?>", lambda found: PARTS[found[1]], rule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optuna_dashboard, "wsgi", noted)
        with serving(f"sqlite:///{database}") as server:
            routes = [(route.method, filled(route.rule)) for route in apps[0].routes]
            yield Site(server, routes, apps[0], reached)


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def assert_told_nothing(answer: Answer) -> None:
    assert answer.status in (403, 405)
    said = ("the dashboard is read-only", "This dashboard needs its token: open the URL")
    assert any(each in answer.body for each in said)
    assert CONFIRMED.name not in answer.body
    assert not answer.headers.keys() & {"set-cookie", "location"}
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


@pytest.mark.parametrize("who", UNKNOWN)
def test_no_route_tells_or_does_anything(site: Site, database: Path, who: str) -> None:
    words, before = site.words(), contents(database)
    headers = {name: value.format(**words) for name, value in UNKNOWN[who].items()}
    site.reached.clear()
    for method, path in site.routes:
        assert_told_nothing(site.sent(method, path, headers))
    assert site.reached == []
    assert contents(database) == before


@pytest.mark.parametrize(
    "query", ["token=", "token=x", "key={token}", "token={half}", "{token}", "token={token}"]
)
def test_no_route_takes_another_query_and_none_that_changes_takes_the_token(
    site: Site, query: str
) -> None:
    """A form of another program on this machine could carry it; it is for the first look only."""
    site.reached.clear()
    for method, path in site.routes:
        if query != "token={token}" or method != "GET":
            assert_told_nothing(site.sent(method, f"{path}?{query.format(**site.words())}", {}))
    assert site.reached == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "token", "cookie"])
def test_who_knows_the_token_reads_all_and_changes_nothing(
    site: Site, database: Path, scheme: str
) -> None:
    words = site.words()
    shown = {"Authorization": f"{scheme} {words['token']}"}
    if scheme == "cookie":  # beside those of other programs at the same address
        cookie = '_xsrf=2|a|b; x={{"; tune_dashboard_{port}=old; tune_dashboard_{port}={token}'
        shown = {"Cookie": cookie.format(**words), "Origin": f"http://{site.address}"}
    site.reached.clear()
    before = contents(database)
    for method, path in site.routes:
        answer = site.sent(method, path, shown)
        if method == "GET":
            assert answer.status not in (401, 403, 405)
        else:
            assert answer.status == 405
            assert answer.body.startswith("the dashboard is read-only")
        # Other pages, frames and caches get nothing of it.
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "private, no-cache"
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert set(site.reached) == {"GET"}
    assert contents(database) == before


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
        # More than there are places for: who comes next is answered once the silent ones are gone.
        for text in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n") * 80:
            stranger = socket.create_connection((host, int(port)), timeout=60)
            stranger.sendall(text)
            strangers.append(stranger)
        known = {"Authorization": f"Bearer {server.token}"}
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
        assert server.page == f"http://{socket.gethostname()}:{port}/"
        known = {"Authorization": f"Bearer {server.token}"}
        assert ask(f"127.0.0.1:{port}", "/api/studies", headers=known).status == 200
        assert ask(f"127.0.0.1:{port}", "/").status == 403


# --- a real `tune dashboard`, another user of the machine, and where its token could be seen ------

OWN_TOKEN = "a-token-of-my-own_0123456789"

#: Run as another user, for whom each request is one of a stranger: reads what it can.
OTHER_USER = """
import json, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("latin-1")
    except OSError as error:
        return type(error).__name__
print(json.dumps([read(path) for path in sys.argv[1:]]))
"""


@dataclass
class Started:
    """A real ``tune dashboard``, what it said, and the file that its browser was called with."""

    process: subprocess.Popen[str]
    line: str
    browser_argv: str

    @property
    def address(self) -> str:
        found = re.search(r"http://(127\.0\.0\.1:\d+)/", self.line)
        assert found is not None, self.line
        return found[1]

    @property
    def page(self) -> Path:
        found = re.search(r"/[^']*/open\.html", self.browser_argv)
        assert found is not None, self.browser_argv
        return Path(found[0])


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
            eventually(noted.exists)
            found = Started(process, line, noted.read_text())
            yield found
        finally:
            process.terminate()
            process.wait()
            timer.cancel()
    assert not found.page.parent.exists(), "the file with the token stays behind"


def test_another_user_of_the_machine_finds_no_token(started: Started) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    shown = f"/proc/{started.process.pid}"
    hidden = [f"{shown}/environ", f"{shown}/mem", f"{shown}/fd/0", str(started.page)]
    argv = [sys.executable, "-c", OTHER_USER, f"{shown}/cmdline", *hidden]
    told = subprocess.check_output(argv, text=True, timeout=120)
    words, *refused = json.loads(told)
    assert "dashboard" in words
    assert refused == ["PermissionError"] * len(hidden)
    assert OWN_TOKEN not in told
    # All of that is there for the user itself.
    assert OWN_TOKEN in Path(f"{shown}/environ").read_text()
    url = f"url=http://{started.address}/?token={OWN_TOKEN}"
    assert url in started.page.read_text()


def test_ctrl_c_ends_it_and_a_token_of_the_users_own_is_repeated_nowhere(
    started: Started, database: Path
) -> None:
    assert "/?token=$TUNE_DASHBOARD_TOKEN" in started.line
    known = {"Authorization": f"Bearer {OWN_TOKEN}"}
    assert ask(started.address, "/api/studies", headers=known).status == 200
    assert ask(started.address, f"/?token={OWN_TOKEN}").status == 303
    assert ask(started.address, f"/nowhere?token={OWN_TOKEN}").status == 303
    started.process.send_signal(signal.SIGINT)
    out, err = started.process.communicate(timeout=60)
    assert started.process.returncode == 0
    assert "Traceback" not in err
    for text in (started.line, out, err, started.browser_argv):
        assert OWN_TOKEN not in text
    assert not started.page.exists()
    for path in database.parent.iterdir():
        if path.is_file():
            assert OWN_TOKEN.encode() not in path.read_bytes()
