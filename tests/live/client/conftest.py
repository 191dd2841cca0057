"""Loaders have real worker processes: none outlives a test, and none is waited for without end."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    """End a test whose loader hangs, and its workers with it."""

    def end(*_: object) -> None:
        for process in multiprocessing.active_children():
            process.kill()
        # Not an OSError: multiprocessing takes one, where it waits, for a child that is gone.
        pytest.fail("the test took longer than 60 s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
