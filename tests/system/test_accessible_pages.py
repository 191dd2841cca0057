"""Our pages under axe-core, by day and by night; and what of Optuna's own pages is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import study_samples as samples
from tests.report_samples import watched
from tests.results.test_scale import on_hosts, scaling
from tests.serving import serving
from tests.study_surface import CONFIRMED, FakeRunner, nearly_flat, study_in
from tuner.cli import stored
from tuner.model import StudyState
from tuner.results import dashboard
from tuner.results.dashboard.server import DashboardServer
from tuner.results.report import report
from tuner.store import Store

pytestmark = pytest.mark.system

#: What axe-core finds in Optuna's own pages, of the kinds that it calls serious or critical.
OF_OPTUNA = frozenset(
    {"aria-input-field-name", "button-name", "color-contrast", "label", "list", "listitem"}
)

#: A report of each kind.
REPORTS: dict[str, Callable[[], str]] = {
    "faster": lambda: report(watched(samples.faster()), home="/dashboard/"),
    "inconclusive": lambda: report(samples.inconclusive()),
    "failures": lambda: report(samples.failing()),
    "nothing yet": lambda: report(samples.launched([], best=None, state=StudyState.RUNNING)),
    "live": lambda: report(samples.measured_live()),
    "scale": lambda: scaling({on_hosts(1): 16.2, on_hosts(2): 10.0}).page(),
}

#: Where Optuna's page shows our note.
NOTE = ".wmde-markdown"

OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"


def findings(page: Any, of: str | None = None) -> list[dict[str, Any]]:
    """What axe-core says against the page, or against an element of it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    return list(axe.Axe().run(page, of).response["violations"])


def by_day_and_by_night(page: Any) -> list[str]:
    """What is found in the page with everything in it opened: rules and elements."""
    page.evaluate(OPEN_ALL)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found += [
            f"{scheme}: {each['id']}: {[node['html'] for node in each['nodes']]}"
            for each in findings(page)
        ]
    return found


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_passes_axe(browser: Any, tmp_path: Path, kind: str) -> None:
    """On a phone, where the tables have to be scrolled."""
    path = tmp_path / "report.html"
    path.write_text(REPORTS[kind]())
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(60_000)
    page.goto(path.as_uri())
    if (plot := page.locator("[role=img]").first).count():
        plot.scroll_into_view_if_needed()
        plot.locator("svg").first.wait_for(state="attached")
    assert by_day_and_by_night(page) == []
    page.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """A dashboard of a study of a synthetic machine."""
    folder = tmp_path_factory.mktemp("accessible")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        study_in(folder, FakeRunner(nearly_flat), CONFIRMED, outputs=folder / "outputs")
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        dashboard.annotate(store.url, stored.load(store, None))
        with serving(store.url) as found:
            yield found


def test_our_pages_of_the_dashboard_pass_axe_and_optunas_have_what_is_known(
    browser: Any, server: DashboardServer
) -> None:
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    page.set_default_timeout(60_000)
    assert page.goto(server.page).status == 403
    assert by_day_and_by_night(page) == []
    page.goto(server.url)
    assert page.goto(f"{server.page}report/other").status == 404
    assert by_day_and_by_night(page) == []
    page.emulate_media(color_scheme="light")
    study, seen = f"{server.page}dashboard/studies/1", set[str]()
    for address, ready in (
        (study, "[id='user-defined-plot:tune-pair-0'] svg"),
        (f"{study}/trials", "text=Best Trial"),
        (f"{study}/note", NOTE),
    ):
        page.goto(address)
        page.locator(ready).first.wait_for(state="attached")
        serious = [each for each in findings(page) if each["impact"] in ("serious", "critical")]
        seen |= {each["id"] for each in serious}
    assert "button-name" in seen  # it did look
    assert seen <= OF_OPTUNA
    assert findings(page, NOTE) == []
    page.close()
