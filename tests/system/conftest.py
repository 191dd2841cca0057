"""What several system tests need: a browser, and processes that must live on."""

from __future__ import annotations

import subprocess
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


@pytest.fixture
def bystander() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that must live on."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv, env=env, start_new_session=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()
