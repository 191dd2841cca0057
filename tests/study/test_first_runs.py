"""First runs on one new database at the same time: each gets Optuna's tables."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from tuner.store import Store
from tuner.study.optuna_trials import open_storage

PROCESSES = 6


def first_run(url: str, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    Store.open(url, create=True).close()
    open_storage(url)


def test_two_first_runs_on_one_new_database_both_get_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        url = f"sqlite:///{tmp_path / str(attempt)}.db"
        barrier = context.Barrier(PROCESSES)
        runs = [context.Process(target=first_run, args=(url, barrier)) for _ in range(PROCESSES)]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        assert [run.exitcode for run in runs] == [0] * PROCESSES
