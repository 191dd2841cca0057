"""Pages in a browser under axe-core, which says what of them not everybody can use."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

#: Nothing is loaded, so nothing has to be loaded first.
OPTIONS = {"resultTypes": ["violations"], "preload": False}

RUN = "([what, options]) => axe.run(what || document, options).then(told => told.violations)"


def findings(page: Any, *, of: str = "", rules: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """The elements that break a rule of axe-core, by the rule.

    Args:
        page: The page, as it is.
        of: Only what is in this element.
        rules: These alone; without any all that are on by default.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{AXE_SCRIPT}; 0")
    more = {"runOnly": rules} if rules else {}
    told = page.evaluate(RUN, [of, OPTIONS | more])
    return {each["id"]: [node["html"] for node in each["nodes"]] for each in told}


def by_day_and_by_night(page: Any) -> dict[str, list[str]]:
    """What is found with everything in the page opened; by night only colours are others."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.emulate_media(color_scheme="light")
    found = findings(page)
    page.emulate_media(color_scheme="dark")
    return found | {
        f"{rule} by night": told for rule, told in findings(page, rules=("color-contrast",)).items()
    }
