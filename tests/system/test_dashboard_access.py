"""Strangers at the dashboard, every route of it, over real connections; its token."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import optuna_dashboard
import pytest

from tests.light_trainer import MAIN
from tests.serving import Answer, ask, serving
from tests.study_surface import CONFIRMED
from tuner.model.errors import BusyError, UsageError
from tuner.results.dashboard import access, web_server
from tuner.results.dashboard.web_server import DashboardServer

pytestmark = pytest.mark.system

#: A value for each part of a path; the study exists, so that an open route would tell or change it.
PARTS = {"study_id": "1", "trial_id": "1", "artifact_id": "abc", "plot_type": "contour",
         "history_id": "1", "filename": "bundle.js", "": "/"}  # fmt: skip

#: Does something on any route that takes a body.
BODY = json.dumps({"study_name": "taken", "directions": ["minimize"], "body": "taken",
                   "version": 9, "state": "Fail", "user_attrs": {"taken": 1}})  # fmt: skip


@dataclass
class Site:
    """A dashboard that answers, with its routes."""

    server: DashboardServer
    routes: list[tuple[str, str]]

    @property
    def address(self) -> str:
        return urlsplit(self.server.page).netloc

    def words(self) -> dict[str, str]:
        """What the headers of a stranger are made of."""
        token, (host, _, port) = self.server.token, self.address.partition(":")
        return {"token": token, "half": token[:21], "host": host, "port": port}

    def sent(self, method: str, path: str, headers: dict[str, str]) -> Answer:
        body = BODY if method in ("POST", "PUT", "DELETE") else None
        kind = {"Content-Type": "application/json"} if body else {}
        return ask(self.address, path, method, body, {**kind, **headers})


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Site]:
    """A dashboard; the routes are those that the application itself lists."""

    def filled(rule: str) -> str:
        """A path that a route answers: ``/csv/<study_id:int>`` becomes ``/csv/1``."""
        return re.sub(r"<(\w*)(?::[^<>]*)?>", lambda part: PARTS[part[1]], rule)

    app: Any = optuna_dashboard.wsgi(f"sqlite:///{database}")
    routes = [(route.method, filled(route.rule)) for route in app.routes]
    assert len(routes) >= 30 and ("DELETE", "/api/studies/1") in routes
    with serving(f"sqlite:///{database}") as server:
        yield Site(server, routes)


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


#: Those who do not know the token, or show it where it does not belong.
UNKNOWN: dict[str, dict[str, str]] = {
    "nothing": {},
    "half of it": {"Authorization": "Bearer {half}"},
    "no ASCII": {"Authorization": "Bearer \xe9{token}"},
    "no scheme": {"Authorization": "{token}"},
    "cookie of another port": {"Cookie": "tune_dashboard_1={token}"},
    "cookie of another name": {"Cookie": "token={token}; tune_dashboard_={token}; {token}"},
    "another header": {"X-Token": "{token}", "Referer": "http://{host}/dashboard/?token={token}"},
}


@pytest.mark.parametrize("who", [*UNKNOWN, "?token=x", "?token={token}"])
def test_no_route_tells_or_does_anything(site: Site, database: Path, who: str) -> None:
    """A form of another program could carry the token in a URL: that is for the first look only."""
    words, before = site.words(), contents(database)
    headers = {name: value.format(**words) for name, value in UNKNOWN.get(who, {}).items()}
    query = who.format(**words) if who.startswith("?") else ""
    for method, path in site.routes:
        if who == "?token={token}" and method == "GET":
            continue
        answer = site.sent(method, f"{path}{query}", headers)
        assert answer.status in (403, 405)
        said = ("the dashboard is read-only", "This dashboard needs its token: open the URL")
        assert any(text in answer.body for text in said)
        assert CONFIRMED.name not in answer.body
        assert not answer.headers.keys() & {"set-cookie", "location"}
    assert contents(database) == before


@pytest.mark.parametrize("scheme", ["Bearer", "cookie"])
def test_who_knows_the_token_reads_all_and_changes_nothing(
    site: Site, database: Path, scheme: str
) -> None:
    words, before = site.words(), contents(database)
    headers = {"Authorization": f"{scheme} {words['token']}"}
    if scheme == "cookie":  # beside those of other programs at the same address
        cookie = '_xsrf=2|a|b; x={{"; tune_dashboard_{port}=old; tune_dashboard_{port}={token}'
        headers = {"Cookie": cookie.format(**words), "Origin": f"http://{site.address}"}
    for method, path in site.routes:
        answer = site.sent(method, path, headers)
        if method == "GET":
            assert answer.status not in (401, 403, 405)
        else:
            assert answer.status == 405
        # Other pages, frames and caches get nothing of it.
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "private, no-cache"
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert contents(database) == before


def test_its_first_page_is_the_report_of_the_latest_study(site: Site, database: Path) -> None:
    token = {"Authorization": f"Bearer {site.server.token}"}
    latest, named = (site.sent("GET", path, token) for path in ("/", f"/report/{CONFIRMED.name}"))
    assert latest.headers["content-type"] == "text/html; charset=utf-8"
    assert latest.body == named.body
    assert '<a href="/dashboard/">All studies' in latest.body
    missing = site.sent("GET", "/report/<b>other", token)
    assert missing.status == 404 and "<b>" not in missing.body
    port = int(site.words()["port"])
    with (
        pytest.raises(BusyError, match=f"port {port} on 127.0.0.1 is in use"),
        web_server.bind(f"sqlite:///{database}", str, port=port),
    ):
        pass


def test_the_first_visit_leaves_a_cookie_and_an_address_without_the_token(site: Site) -> None:
    first = ask(site.address, f"/dashboard/studies/1?a=b&token={site.server.token}&c=%26")
    assert (first.status, first.body) == (303, "")
    assert first.headers["location"] == "/dashboard/studies/1?a=b&c=%26"
    kept, *rules = first.headers["set-cookie"].split("; ")
    assert kept == f"tune_dashboard_{site.words()['port']}={site.server.token}"
    assert sorted(rules) == ["HttpOnly", "Path=/", "SameSite=Lax"]
    assert ask(site.address, first.headers["location"], headers={"Cookie": kept}).status == 200


def test_a_trial_that_is_no_number_is_a_bad_request(site: Site) -> None:
    token = {"Authorization": f"Bearer {site.server.token}"}
    assert ask(site.address, "/api/studies/1?after=x", headers=token).status == 400


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example"])
def test_the_way_on_stays_here(site: Site, path: str) -> None:
    token = f"?token={site.server.token}"
    first = ask(site.address, f"{path}{token}", headers={"Host": site.address})
    assert first.status == 303
    assert re.match(r"/(?![/\\])", first.headers["location"])
    assert "\\" not in first.headers["location"]


@pytest.mark.parametrize("host", ["", "::1", "192.0.2.1", "nowhere.invalid"])
def test_what_is_no_address_of_this_machine_is_one_error(host: str) -> None:
    with pytest.raises(UsageError) as caught, web_server.bind("sqlite://", str, host=host, port=0):
        pass
    assert host in caught.value.message
    assert "--host" in caught.value.hint


@pytest.mark.parametrize("given", ["", "fifteen-letters", "a" * 15 + ";", "é" * 20], ids=ascii)
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="TUNE_DASHBOARD_TOKEN") as caught:
        access.token_of(given)
    assert not given or given not in str(caught.value)


# --- a real `tune dashboard`, and where its token could be seen ----------------------------------

OWN_TOKEN = "a-token-of-my-own_0123456789"


def test_a_token_of_the_users_own_is_shown_to_nobody_and_ctrl_c_ends_it(
    database: Path, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "dashboard", "--port", "0", "--storage", str(database)],
        cwd=tmp_path,
        env={**os.environ, access.TOKEN_VARIABLE: OWN_TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        timer = threading.Timer(120, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://(127\.0\.0\.1:\d+)/\?token=\$TUNE_DASHBOARD_TOKEN", line)
            assert address is not None
            token = {"Authorization": f"Bearer {OWN_TOKEN}"}
            assert ask(address[1], "/api/studies", headers=token).status == 200
            assert ask(address[1], f"/nowhere?token={OWN_TOKEN}").status == 303
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            timer.cancel()
    assert process.returncode == 0
    assert "Traceback" not in err
    assert OWN_TOKEN not in line + out + err
    for path in database.parent.iterdir():
        if path.is_file():
            assert OWN_TOKEN.encode() not in path.read_bytes()
