"""What ``tune dashboard`` says before it serves; that it serves is tested in tests/system/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Tune
from tuner.results.dashboard import access, web_server


@pytest.fixture(autouse=True)
def at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interrupted as soon as it serves, and has no token of the user's own."""
    monkeypatch.setattr(web_server.DashboardServer, "serve", lambda self: None)
    monkeypatch.delenv(access.TOKEN_VARIABLE, raising=False)


def dashboard(tune: Tune, database: Path, *more: str) -> tuple[str, str]:
    done = tune("dashboard", "--storage", str(database), "--port", "0", *more)
    assert done.code == 0, done.err
    return done.out, done.err


def test_the_url_with_its_token_is_the_result(tune: Tune, database: Path) -> None:
    out, err = dashboard(tune, database)
    url = r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}"
    assert re.fullmatch(rf"dashboard at {url} \(Ctrl-C ends it\)\n", out)
    assert err == "dashboard ended\n"
    _, err = dashboard(tune, database, "--host", "0.0.0.0")
    assert "tune: warning: everybody who can reach " in err
