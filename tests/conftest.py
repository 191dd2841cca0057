"""What tests of every kind share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

#: Tests run beside each other: how often a setting is launched must not depend on that.
os.environ.setdefault("TUNE_DISTURBED", "count")


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
