"""The dashboard's pages in a real browser, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import optuna_dashboard
import pytest

from tests.accessible import by_day_and_by_night, findings
from tests.serving import serving
from tests.study_samples import HOSTILE, launched, searched
from tests.study_surface import CONFIRMED, FakeRunner, study_in
from tuner.model import Failed, FailureKind
from tuner.results.dashboard.annotations import note
from tuner.results.dashboard.web_server import DashboardServer

pytestmark = pytest.mark.system

#: Where Optuna's page has our note.
NOTE = "main .MuiCardContent-root > :is(h2, p, ul, pre)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """A dashboard of a study of a synthetic machine, and of one with hostile texts.

    Optuna numbers them: 1 is the comparison of the first one, 2 its search, 3 the other.
    """
    folder = tmp_path_factory.mktemp("dashboard")
    url = f"sqlite:///{folder / 'tune.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        study_in(folder, FakeRunner(), CONFIRMED, outputs=folder / "outputs")
    study = optuna.create_study(study_name="hostile", storage=url)
    hostile = launched(searched(Failed(FailureKind.CRASHED, HOSTILE)))
    optuna_dashboard.save_note(study, note(hostile))
    with serving(url) as server:
        yield server


def stranger(browser: Any) -> Any:
    """A page of a browser that knows no token; without the scripts, which take their time."""
    page = browser.new_context().new_page()
    page.set_default_timeout(60_000)
    page.route("**/static/**", lambda route: route.abort())
    return page


def assert_in(page: Any, server: DashboardServer) -> None:
    """It came to the dashboard, at an address that does not tell the token, and may ask."""
    page.wait_for_url(server.page, wait_until="commit")  # the scripts are left out: it may not load
    assert page.request.get(f"{server.page}api/studies").status == 200


def test_a_link_in_a_file_and_on_another_site_lets_in(
    browser: Any, server: DashboardServer, tmp_path: Path
) -> None:
    """As from a terminal in a browser: strict cookies do not come along."""
    file = tmp_path / "open.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={server.url}">')
    page = stranger(browser)
    page.goto(file.as_uri())
    assert_in(page, server)
    page = stranger(browser)
    link = f'<a href="{server.url}">go</a>'
    page.route("http://site.example/", lambda route: answered(route, link))
    page.goto("http://site.example/")
    page.get_by_text("go").click()
    assert_in(page, server)


def answered(route: Any, body: str) -> None:
    route.fulfill(body=body, content_type="text/html")


def test_a_page_of_another_port_gets_nothing_with_the_cookie(
    browser: Any, server: DashboardServer
) -> None:
    """Another user's server at the same address: to a browser it is the same site."""
    known = stranger(browser)
    known.goto(server.url)
    assert_in(known, server)
    page = known.context.new_page()
    page.set_default_timeout(60_000)
    page.route("http://127.0.0.1:1/", lambda route: answered(route, "<p>mine</p>"))
    page.goto("http://127.0.0.1:1/")
    for options in ("{}", "{mode: 'no-cors'}", "{mode: 'no-cors', method: 'POST', body: '{}'}"):
        ask = f"url => fetch(url, {{credentials: 'include', ...{options}}})"
        kind = page.evaluate(f"{ask}.then(a => a.type, e => 'refused')", f"{server.page}x")
        assert kind == "refused", options
    known.reload()
    assert_in(known, server)


def test_the_note_is_text_and_axe_finds_nothing_in_it_nor_in_our_pages(
    browser: Any, server: DashboardServer
) -> None:
    page, requests = browser.new_page(viewport={"width": 1400, "height": 1000}), list[str]()
    page.set_default_timeout(60_000)
    page.on("request", lambda request: requests.append(request.url))
    assert page.goto(server.page).status == 403
    assert by_day_and_by_night(page) == {}
    page.goto(server.url)
    assert page.goto(f"{server.page}report/other").status == 404
    assert by_day_and_by_night(page) == {}
    page.emulate_media(color_scheme="light")
    page.goto(f"{server.page}dashboard/studies/3/note")
    page.get_by_text("<script>alert(1)</script>").first.wait_for()
    made_of_it = "a[href*='evil.example'], a[href^='javascript:'], img[src*='evil.example']"
    assert page.locator(made_of_it).evaluate_all("all => all.map(e => e.outerHTML)") == []
    assert page.get_by_text("`c` **b**").count() > 0
    assert findings(page, of=NOTE) == {}
    here = ("http://127.0.0.1:", "data:", "blob:")
    assert [address for address in requests if not address.startswith(here)] == []
    page.close()
