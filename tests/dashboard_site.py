"""A dashboard for tests: its routes, and the requests that passed its checks."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.serving import Answer, ask, serving
from tests.study_surface import CONFIRMED, FakeRunner
from tuner.results.dashboard.server import DashboardServer
from tuner.study import tune

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


@dataclass
class Site:
    """A dashboard that answers, and what came as far as the application behind its guard."""

    server: DashboardServer
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
        }


def made_database(folder: Path) -> Path:
    """A database with a study of a synthetic machine."""
    made = folder / "tune.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        tune(CONFIRMED, storage=str(made), outputs=folder / "outputs", run=FakeRunner())
    return made


@contextmanager
def standing(database: Path) -> Iterator[Site]:
    """A dashboard; the routes are those that the application itself lists."""
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


def sent(site: Site, method: str, path: str, headers: dict[str, str]) -> Answer:
    body = BODY if method in ("POST", "PUT", "DELETE") else None
    kind = {"Content-Type": "application/json"} if body else {}
    return ask(site.address, path, method, body, {**kind, **headers})


def assert_told_nothing(answer: Answer) -> None:
    assert answer.status in (403, 405)
    said = ("the dashboard is read-only", "This dashboard needs its token: open the URL")
    assert answer.body.startswith(said)
    assert CONFIRMED.name not in answer.body
    assert "set-cookie" not in answer.headers
    assert "location" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control-")]
