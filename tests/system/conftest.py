"""The browser of the system tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
def browser(require_program: Callable[[str], str]) -> Iterator[Any]:
    """A headless Chromium."""
    api = pytest.importorskip("playwright.sync_api")
    path = require_program("chromium")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()
