"""What tests of every kind share."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: no test asserts a time.
settings.register_profile("no deadline", deadline=None, max_examples=30)
settings.load_profile("no deadline")
# `make fuzz` asks for this one.
settings.register_profile("fuzz", deadline=None, max_examples=20_000)

#: Tests run beside each other: how often a setting is launched must not depend on that.
# ... and each process of pytest measures as if the host were its own.
_LOCKS = tempfile.TemporaryDirectory(prefix="tune-locks-")
os.environ["TUNE_LOCK_DIR"] = _LOCKS.name

# Whoever starts the tests may ignore these (`nohup make test &`, some CI runners). What the tests
# start would inherit that; it does not inherit a handler.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a system program; in CI give each test a second chance.

    A shared machine may stand still for seconds. By hand the first failure counts. A failure that
    has nothing to do with time happens the second time, too; the report names each rerun.
    """
    for item in items:
        if "require_program" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.program)
        if os.environ.get("CI"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def require_program() -> Callable[[str], str]:
    """Gives the path of a system program, or skips the test.

    With ``TUNE_TEST_PROGRAMS=required``, as in CI, a missing program is a failure.
    """

    def find(name: str) -> str:
        return shutil.which(name) or _missing(f"{name} is not installed")

    return find


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them: making Optuna's takes half a second."""
    from tuner.store.store import Store

    path = tmp_path_factory.mktemp("template") / "tune.db"
    Store.open(f"sqlite:///{path}", create=True).close()
    return path


@pytest.fixture(scope="session")
def extras() -> Path:
    """The programs of ``.venv-extras``, with large libraries; the same rules if it is missing."""
    programs = Path(__file__).parent.parent / ".venv-extras"
    if not (programs / ".installed").exists():
        _missing("make .venv-extras/.installed was not run")
    return programs / "bin"


def _missing(what: str) -> NoReturn:
    if os.environ.get("TUNE_TEST_PROGRAMS") == "required":
        pytest.fail(what)
    pytest.skip(what)
