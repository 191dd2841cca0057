"""The dashboard's pages in a real browser, without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import optuna_dashboard
import pytest

from tests.accessible import by_day_and_by_night, findings
from tests.serving import serving
from tests.study_samples import HOSTILE, launched, searched
from tests.study_surface import CONFIRMED, FakeRunner, nearly_flat, study_in
from tuner.cli import stored
from tuner.model import Failed, FailureKind
from tuner.results import dashboard
from tuner.results.dashboard.annotations import note
from tuner.results.dashboard.server import DashboardServer
from tuner.store import Store

pytestmark = pytest.mark.system

#: The rules of axe-core that Optuna's own pages break, which are not ours to mend.
OF_OPTUNA = frozenset(
    {
        *("aria-input-field-name", "button-name", "color-contrast", "heading-order", "label"),
        *("list", "listitem", "page-has-heading-one", "region"),
    }
)
#: Where Optuna's page has our note.
NOTE = "main .MuiCardContent-root > :is(h2, p, ul, pre)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """A dashboard of a study of a synthetic machine, and of one with hostile texts.

    Optuna numbers them: 1 is the comparison of the first one, 2 its search, 3 the other.
    """
    folder = tmp_path_factory.mktemp("dashboard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNE_LOCK_DIR", str(folder))
        runner = FakeRunner(nearly_flat)  # nothing is stopped: each setting is a cell of the map
        study_in(folder, runner, CONFIRMED, outputs=folder / "outputs")
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        dashboard.annotate(store.url, stored.load(store, None))
        hostile = note(launched(searched(Failed(FailureKind.CRASHED, HOSTILE))))
        study = optuna.create_study(study_name="hostile", storage=store.url)
        optuna_dashboard.save_note(study, hostile)
        with serving(store.url) as found:
            yield found


@pytest.fixture(scope="module")
def page(browser: Any, server: DashboardServer) -> Any:
    """A page that was let in; what it asks for elsewhere than on loopback is noted."""
    found = browser.new_page(viewport={"width": 1400, "height": 1000})
    found.set_default_timeout(60_000)
    found.requests = []
    found.on("request", lambda request: found.requests.append(request.url))
    found.goto(server.url)
    return found


def elsewhere(page: Any) -> list[str]:
    """What it asked for that is not on this machine."""
    here = ("http://127.0.0.1:", "data:", "blob:")
    return [address for address in page.requests if not address.startswith(here)]


def test_the_study_shows_its_note_and_its_heat_map_and_fetches_nothing_from_elsewhere(
    page: Any, server: DashboardServer
) -> None:
    assert "token" not in page.url
    page.get_by_role("link", name="All studies").click()
    page.get_by_text(re.compile(f"{CONFIRMED.name}$")).first.click()
    page.goto(page.url.rstrip("/") + "/note")
    page.get_by_text("times faster than your defaults").first.wait_for()
    page.get_by_text(re.compile("tune export surface --storage .* --format sh")).first.wait_for()
    page.goto(f"{server.page}dashboard/studies/2")
    heat_map = page.locator("[id='user-defined-plot:tune-pair-0']")
    heat_map.locator(".hm image").first.wait_for(state="attached")
    heat_map.scroll_into_view_if_needed()
    assert "omp_threads and iterator_workers" in heat_map.inner_text()
    page.wait_for_load_state("networkidle")
    assert elsewhere(page) == []


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
    """What ``--open`` makes, and a terminal in a browser: strict cookies do not come along."""
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
        told = page.evaluate(f"{ask}.then(a => a.type, e => 'refused')", f"{server.page}x")
        assert told == "refused", options
    known.reload()
    assert_in(known, server)


def test_what_a_program_wrote_stays_text(page: Any, server: DashboardServer) -> None:
    """A failure's text in the note: no tag, no picture, no link."""
    page.goto(f"{server.page}dashboard/studies/3/note")
    page.get_by_text("<script>alert(1)</script>").first.wait_for()
    made_of_it = "a[href*='evil.example'], a[href^='javascript:'], img[src*='evil.example']"
    assert page.locator(made_of_it).evaluate_all("all => all.map(e => e.outerHTML)") == []
    assert page.get_by_text("`c` **b**").count() > 0
    assert elsewhere(page) == []


def test_axe_finds_nothing_in_our_pages_and_what_is_known_in_optunas(
    browser: Any, server: DashboardServer
) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    assert page.goto(server.page).status == 403
    assert by_day_and_by_night(page) == {}
    page.goto(server.url)
    assert page.goto(f"{server.page}report/other").status == 404
    assert by_day_and_by_night(page) == {}
    page.emulate_media(color_scheme="light")
    study, seen = f"{server.page}dashboard/studies/2", set[str]()
    for address, ready in (
        (study, "[id='user-defined-plot:tune-pair-0'] .hm image"),
        (f"{study}/trials", "text=Best Trial"),
        (f"{study}/note", NOTE),
    ):
        page.goto(address)
        page.locator(ready).first.wait_for(state="attached")
        seen |= findings(page).keys()
    assert findings(page, of=NOTE) == {}
    assert "button-name" in seen, "it was looked at"
    assert seen <= OF_OPTUNA
    page.close()
