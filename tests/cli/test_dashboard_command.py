"""What ``tune dashboard`` says before it serves; that it serves is tested in tests/system/."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Tune
from tuner.results.dashboard import access, web_server


def test_the_url_with_its_token_is_the_result(
    tune: Tune, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server.DashboardServer, "serve", lambda self: None)
    monkeypatch.delenv(access.TOKEN_VARIABLE, raising=False)
    words = ("dashboard", "--storage", str(database), "--port", "0")
    done = tune(*words)
    url = r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}"
    assert re.fullmatch(rf"dashboard at {url} \(Ctrl-C ends it\)\n", done.out)
    assert (done.code, done.err) == (0, "dashboard ended\n")
    assert "tune: warning: everybody who can reach " in tune(*words, "--host", "0.0.0.0").err


def test_without_its_extra_it_says_how_to_install_it(
    tune: Tune, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "waitress", None)
    done = tune("dashboard", "--storage", str(database), "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert "next: pip install 'runtime-tuner[dashboard]'\n" in done.err
