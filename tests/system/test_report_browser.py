"""The report in a real browser: without a network, on a phone and a desk, by day and by night."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests import study_samples as samples
from tests.accessible import by_day_and_by_night
from tests.marked import eventually
from tests.study_samples import hostile, watched
from tuner.model import StudyState
from tuner.results.report.page import plotly_js, report

pytestmark = pytest.mark.system

#: Where the pictures go, to be looked at.
SHOTS = Path(os.environ.get("TUNE_SHOTS") or "build/shots")

#: What is drawn of every figure, and what it says.
LOOK = """() => [...document.querySelectorAll("figure")].map(figure => {
  const plot = figure.querySelector("[role=img]");
  return {
    key: figure.id,
    drawn: plot.querySelectorAll("svg").length > 0,
    label: plot.getAttribute("aria-label"),
    caption: figure.querySelector("figcaption").textContent,
    cells: figure.querySelectorAll("details td").length,
  };
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("report")
    studies = {
        "faster": watched(samples.faster()),
        "pairs": watched(samples.side_by_side(), gpu=False),
        "hostile": hostile(),
        "hybrid": samples.hybrid(),
    }
    for name, data in studies.items():
        (folder / f"{name}.html").write_text(report(data))
    return {name: folder / f"{name}.html" for name in studies}


def opened(browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> Any:
    """The page, offline, scrolled through once, so that every figure is drawn."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("dialog", lambda dialog: (page.said.append("a dialog"), dialog.dismiss()))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    for plot in page.locator("[role=img]").all():
        plot.scroll_into_view_if_needed()
        plot.locator("svg").first.wait_for(state="attached")
    return page


def assert_sound(page: Any, path: Path) -> None:
    """It asked for itself alone, said nothing, and has nothing that is wider than it."""
    assert [url for url in page.asked if not url.startswith("data:")] == [path.as_uri()]
    assert page.said == []
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("faster", 390, "dark"),
        ("pairs", 1280, "light"),
        ("hostile", 320, "light"),
        ("hybrid", 390, "dark"),
    ],
)
def test_it_can_be_read_anywhere(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    page = opened(browser, pages[name], width, scheme)
    for figure in page.evaluate(LOOK):
        assert figure["drawn"], figure["key"]
        assert figure["caption"].split()[0] in figure["label"]
        assert figure["cells"] > 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 29)"}[scheme]
    paper = page.locator(".plot .main-svg").first.evaluate("e => getComputedStyle(e).background")
    assert background in paper
    page.evaluate("scrollTo(0, 0)")
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(SHOTS / f"report_{name}_{width}_{scheme}.png"), full_page=True)
    assert_sound(page, pages[name])
    page.context.close()


def test_figures_follow_the_colours_and_the_width_and_catch_no_finger(
    browser: Any, pages: dict[str, Path]
) -> None:
    """By the keyboard alone the tables open; a swipe over a figure scrolls the page."""

    def until(script: str) -> None:
        """Wait for what comes true; the page's policy allows no predicate of Playwright's in it."""
        eventually(lambda: bool(page.evaluate(script)))

    page = opened(browser, pages["pairs"])
    page.locator("#search summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#search table").is_visible()
    extent = "document.querySelector('#search .plot').layout.xaxis.range"
    before, box = page.evaluate(extent), page.locator("#search .plot").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] + 100, steps=4)
    page.mouse.up()
    assert page.evaluate(extent) == before
    page.emulate_media(color_scheme="dark")
    until("!!document.querySelector(\".main-svg[style*='rgb(21, 24, 29)']\")")
    page.set_viewport_size({"width": 390, "height": 800})
    until("document.querySelector('.main-svg').getBoundingClientRect().width < 390")
    assert_sound(page, pages["pairs"])
    page.context.close()


def test_without_scripts_the_numbers_are_there(browser: Any, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(pages["faster"].as_uri())
    page.locator("#runs summary").click()
    assert page.locator("#runs table").is_visible()
    context.close()


def test_axe_finds_nothing_by_day_or_by_night(browser: Any, tmp_path: Path) -> None:
    """On a phone, where tables have to be scrolled. Figures are drawn in the first page alone."""
    texts = {
        "faster, live": report(watched(samples.measured_live()), home="/dashboard/"),
        "nothing yet": report(samples.launched([], best=None, state=StudyState.RUNNING)),
    }
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(60_000)
    for place, (name, text) in enumerate(texts.items()):
        path = tmp_path / f"{name}.html"
        path.write_text(text.replace(plotly_js(), "") if place else text)
        page.goto(path.as_uri())
        if not place:
            page.locator("[role=img]").first.scroll_into_view_if_needed()
            page.locator("[role=img] svg").first.wait_for(state="attached")
        assert by_day_and_by_night(page) == {}, name
    page.close()
