"""Makes the kept database of this version: ``python -m tests.store.make_database``.

Run once for each version of the tables, and never again: what it made is what a user has.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.study_surface import CONFIRMED, CRASH, FakeRunner, surface
from tuner.launch.request import MeasurementRequest
from tuner.model import (
    BASELINE,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Finished,
    Load,
    Observation,
    Outcome,
    RankView,
    Setting,
    StudySpec,
    Window,
    codec,
)
from tuner.search.stopper import Noise
from tuner.store import Store
from tuner.store.schema import SCHEMA_VERSION
from tuner.study import result, tune

HERE = Path(__file__).parent.parent.parent

FOLDER = Path(__file__).parent / "databases"

#: Where the launches of the kept study wrote to.
OUTPUTS = Path("/var/tmp/tune-kept")

SPEC: StudySpec = replace(CONFIRMED, name="kept", job=("train", "--all"), trials=8)

RANK = RankView(0, 3, 1, (0, 1), 2, 1, True, 2, "Open MPI v5.0.11", (("libopenblas", 2),), 64, True)


def window(outcome: Outcome) -> Window:
    """One at the pace that the outcome was scaled from."""
    assert isinstance(outcome.ending, Finished)
    pace_s = outcome.ending.elapsed_s / (outcome.ending.iterations + Noise().warm_up_typical)
    return Window(7, ("omp_threads",), 0.0, 0.25, 1, 5, pace_s, 0.02, 3.5)


def _endings() -> Iterator[Any]:
    """Of everything a launch may come to one, then what the surface says."""
    yield None
    yield Failed(FailureKind.LOST_HOST, "node2 is gone", "ssh: connect")
    yield None
    yield Failed(FailureKind.OUT_OF_MEMORY, "out of memory: MemoryError", "MemoryError")
    yield CRASH
    yield Failed(FailureKind.STALLED, "nothing happened for 120 s")


class Runner(FakeRunner):
    """Adds to each launch what the real one sees of it."""

    def __init__(self) -> None:
        endings = _endings()

        def time_s(setting: Setting) -> Any:
            found = None if setting == BASELINE else next(endings, None)
            return found or Finished(surface(setting), 100, 1.5, 0.25)

        super().__init__(time_s)

    def __call__(self, request: MeasurementRequest) -> Outcome:
        """Run one launch."""
        outcome = super().__call__(request)
        number = len(self.settings)
        return replace(
            outcome,
            observation=Observation((RANK,)),
            load=Load(0.5, "pid 6263 (python)", 0.1, number == 3, 1 << 20),
            exclusion=(
                Exclusion(ExclusionKind.INTERFERENCE, "other processes used 0.5 of 4 cores")
                if number == 7
                else None
            ),
            window=window(outcome) if number == 8 else None,
        )


def contents(store: Store) -> dict[str, Any]:
    """All that a later version must find."""
    row = store.load(SPEC.name)
    return {
        "spec": codec.to_json(row.spec),
        "identity": row.identity,
        "state": row.state.value,
        "reason": row.reason,
        "launches": [codec.to_json(record) for record in store.launches(SPEC.name)],
        # the name has another key in the files of old versions
        "result": {**codec.to_json(result(store, SPEC.name)), "study": SPEC.name, "storage": ""},
    }


def main() -> None:
    """Write the dump and what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNE_LOCK_DIR"] = folder
        path = Path(folder) / "tune.db"
        tune(SPEC, storage=str(path), run=Runner())
        with Store.open(f"sqlite:///{path}", create=False) as store:
            found = contents(store)
        with closing(sqlite3.connect(path)) as connection:
            dump = "\n".join(connection.iterdump()) + "\n"
    FOLDER.mkdir(exist_ok=True)
    for suffix, text in (("sql", dump), ("json", json.dumps(found, indent=1) + "\n")):
        # the same wherever it is made
        plain = text.replace(str(HERE), "/opt/tune").replace(folder, str(OUTPUTS))
        (FOLDER / f"version-{SCHEMA_VERSION}.{suffix}").write_text(plain)


if __name__ == "__main__":
    main()
