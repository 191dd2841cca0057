"""The tool, as a rank sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_bench import Supervisor


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """That of a job with one rank."""
    played = Supervisor(tmp_path)
    yield played
    played.close()
