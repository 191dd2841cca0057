"""The dashboard's own pages in a real browser, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.accessible import by_day_and_by_night
from tests.serving import serving
from tuner.results.dashboard.web_server import DashboardServer

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server(database: Path) -> Iterator[DashboardServer]:
    with serving(f"sqlite:///{database}") as server:
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


def test_a_link_in_a_file_lets_in_and_a_page_of_another_port_gets_nothing_with_the_cookie(
    browser: Any, server: DashboardServer, tmp_path: Path
) -> None:
    """Another user's server at the same address: to a browser it is the same site."""
    file = tmp_path / "open.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={server.url}">')
    known = stranger(browser)
    known.goto(file.as_uri())
    assert_in(known, server)
    page = known.context.new_page()
    page.set_default_timeout(60_000)
    mine = {"body": "<p>mine</p>", "content_type": "text/html"}
    page.route("http://127.0.0.1:1/", lambda route: route.fulfill(**mine))
    page.goto("http://127.0.0.1:1/")
    for options in ("{}", "{mode: 'no-cors'}", "{mode: 'no-cors', method: 'POST', body: '{}'}"):
        ask = f"url => fetch(url, {{credentials: 'include', ...{options}}})"
        kind = page.evaluate(f"{ask}.then(a => a.type, e => 'refused')", f"{server.page}x")
        assert kind == "refused", options
    known.reload()
    assert_in(known, server)


def test_axe_finds_nothing_in_our_pages(browser: Any, server: DashboardServer) -> None:
    page = stranger(browser)
    assert page.goto(server.page).status == 403
    assert by_day_and_by_night(page) == {}
    page.goto(server.url)
    assert page.goto(f"{server.page}report/other").status == 404
    assert by_day_and_by_night(page) == {}
