"""The dashboard's pages in a real browser, without a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import serving
from tests.study_surface import CONFIRMED, FakeRunner, nearly_flat
from tuner import dashboard
from tuner.cli import stored
from tuner.store import Store
from tuner.study import tune

pytestmark = pytest.mark.system

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard with one study of a made-up machine."""
    folder = tmp_path_factory.mktemp("dashboard")
    database = folder / "tune.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        runner = FakeRunner(nearly_flat)  # nothing is stopped: each setting is a cell of the map
        tune(CONFIRMED, storage=str(database), outputs=folder / "outputs", run=runner)
    with Store.open(f"sqlite:///{database}", create=False) as store:
        dashboard.annotate(store.url, stored.load(store, None))
        with serving(store.url) as server:
            yield server.url


@pytest.fixture(scope="module")
def page(require_program: Callable[[str], str]) -> Iterator[Any]:
    """A page of a headless Chromium; what it asks for elsewhere than on loopback is noted."""
    api = pytest.importorskip("playwright.sync_api")
    path = require_program("chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        found = browser.new_page(viewport={"width": 1400, "height": 1000})
        found.elsewhere = []
        found.on("request", lambda request: note_elsewhere(found, request.url))
        yield found
        browser.close()


def note_elsewhere(page: Any, address: str) -> None:
    if not address.startswith(("http://127.0.0.1:", "data:", "blob:")):
        page.elsewhere.append(address)


def shot(page: Any, name: str) -> None:
    """Keep a picture to look at where ``TUNE_SHOTS`` names a folder."""
    folder = os.environ.get("TUNE_SHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / name))


def test_the_study_shows_its_note(page: Any, url: str) -> None:
    page.goto(url)
    page.get_by_text(CONFIRMED.name).first.click()
    page.goto(page.url.rstrip("/") + "/note")
    page.get_by_text("times faster than your defaults").first.wait_for(timeout=20_000)
    page.get_by_text("tune export surface --format sh").first.wait_for()
    shot(page, "note.png")


def test_the_study_shows_its_heat_map(page: Any, url: str) -> None:
    page.goto(f"{url}studies/1")
    heat_map = page.locator(f"[id='user-defined-plot:{dashboard.PLOT_ID}']")
    heat_map.locator(".hm image").first.wait_for(state="attached", timeout=20_000)
    heat_map.scroll_into_view_if_needed()
    assert "Time of a run" in heat_map.inner_text()
    shot(page, "heat_map.png")


def test_nothing_is_fetched_from_elsewhere(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_load_state("networkidle")
    assert page.elsewhere == []
