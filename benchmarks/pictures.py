"""Plotly figures as pictures: a browser draws them, since plotly itself makes none."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

_MARGIN = 20  # pixels of the page around a figure


def write(figure: Any, path: Path, *, width: int, height: int) -> None:
    """Draw a figure of that many pixels into a PNG file."""
    from playwright.sync_api import sync_playwright

    figure.update_layout(width=width, height=height)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "plot.html"
        figure.write_html(page_file)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": width + _MARGIN, "height": height + _MARGIN})
        page.goto(page_file.as_uri())
        page.wait_for_selector(".legend")
        page.screenshot(path=path)
        browser.close()
