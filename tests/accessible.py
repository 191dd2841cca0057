"""Pages in a browser under axe-core, which says what of them not everybody can use."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

#: Nothing is loaded, so nothing has to be loaded first.
OPTIONS = {"resultTypes": ["violations"], "preload": False}

RUN = "options => axe.run(document, options).then(told => told.violations)"


def findings(page: Any, *rules: str) -> dict[str, list[str]]:
    """The elements that break a rule of axe-core, by the rule; without any, all usual rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{AXE_SCRIPT}; 0")
    more = {"runOnly": rules} if rules else {}
    violations = page.evaluate(RUN, OPTIONS | more)
    return {each["id"]: [node["html"] for node in each["nodes"]] for each in violations}


def by_day_and_by_night(page: Any) -> dict[str, list[str]]:
    """What is found with everything in the page opened; by night only colours are others."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.emulate_media(color_scheme="light")
    by_day = findings(page)
    page.emulate_media(color_scheme="dark")
    by_night = findings(page, "color-contrast")
    return by_day | {f"{rule} by night": elements for rule, elements in by_night.items()}
