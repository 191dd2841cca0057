"""What several system tests need: a finished study, a browser, and processes that must live on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.light_trainer import QUICK, command, make_folder, tune
from tests.study_surface import CONFIRMED, FakeRunner, study_in

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update"]  # fmt: skip


@pytest.fixture(scope="session")
def quick_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name, in which the study ``quick`` is finished."""
    folder = make_folder(tmp_path_factory.mktemp("quick") / "my work")
    done = tune(folder, *QUICK, "--trials", "4", *command())
    assert done.returncode == 0, done.stderr
    (folder / "first.out").write_text(done.stdout)
    (folder / "first.err").write_text(done.stderr)
    return folder


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a study of a synthetic machine; no test writes to it."""
    folder = tmp_path_factory.mktemp("database")
    study_in(folder, FakeRunner(), CONFIRMED, outputs=folder / "outputs")
    return folder / "tune.db"


@pytest.fixture(scope="module")
def browser(require_program: Callable[[str], str]) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    path = require_program("chromium")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def bystander() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(argv, env=env, start_new_session=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()
