"""A pool of workers is ended, whatever it is about."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import pytest

from tuner.live.client.chainer_pool import WorkerPool, end_pool


def test_a_pool_that_is_closed_meanwhile_replaces_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pool that is closed, and not terminated, keeps its workers for what it has to do."""
    monkeypatch.setattr("tuner.live.client.chainer_pool._PATIENCE_S", 5.0)
    pool: Any = WorkerPool(2)
    really = pool._cache.clear

    def closed_first() -> None:
        monkeypatch.setattr(pool._cache, "clear", really)
        pool.map_async(time.sleep, [1000])
        pool.close()

    monkeypatch.setattr(pool._cache, "clear", closed_first)
    end_pool(pool)
    pool.join()
    assert multiprocessing.active_children() == []
