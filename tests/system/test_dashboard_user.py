"""Another user of the machine at the dashboard, and where its token could be seen."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.dashboard_site import BODY, Site, assert_told_nothing, made_database, standing
from tests.light_trainer import MAIN
from tests.scripts import python_script
from tests.serving import Answer, ask
from tuner.results.dashboard import access

pytestmark = pytest.mark.system

OWN_TOKEN = "a-token-of-my-own_0123456789"

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


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_database(tmp_path_factory.mktemp("access"))


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Site]:
    with standing(database) as found:
        yield found


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
            process.terminate()
            process.wait()
            timer.cancel()
    shown = re.search(r"'([^']+open\.html)'", noted.read_text())
    assert shown is not None
    assert not Path(shown[1]).parent.exists(), "the file with the token stays behind"


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
