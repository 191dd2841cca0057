"""What tests of every kind share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: no test asserts a time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

#: Tests run beside each other: how often a setting is launched must not depend on that.
os.environ.setdefault("TUNE_DISTURBED", "count")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In CI a test gets a second chance, and the report names it.

    A shared machine may stand still for seconds. By hand the first failure counts; a failure that
    has nothing to do with time is one the second time, too.
    """
    if os.environ.get("CI"):
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def require_program() -> Callable[[str], str]:
    """Gives the path of a system program, or skips the test; where CI is set it fails instead."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None and os.environ.get("CI"):
            pytest.fail(f"{name} is not installed, and CI must not skip")
        if path is None:
            pytest.skip(f"{name} is not installed")
        return path

    return find
