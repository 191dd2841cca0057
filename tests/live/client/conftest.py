"""What the loaders of trainers share: real workers, of which none outlives a test."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator

import numpy as np
import pytest


class Threads:
    """A dataset whose examples are OpenCV's number of threads where they are loaded."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, _: int) -> int:
        cv2 = pytest.importorskip("cv2")
        image = np.zeros((400, 400, 3), np.uint8)
        cv2.warpAffine(image, cv2.getRotationMatrix2D((200, 200), 10, 1), (400, 400))
        return int(cv2.getNumThreads())


@pytest.fixture
def threads() -> Iterator[int]:
    """OpenCV's own number; its threads run in this process, as in a rank that loads itself."""
    cv2 = pytest.importorskip("cv2")
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    Threads()[0]
    yield 3
    cv2.setNumThreads(before)


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
