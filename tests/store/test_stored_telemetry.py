"""What was recorded of a launch, in the database and nowhere else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import BEST, MACHINE, SPEC
from tuner.model import (
    Failed,
    FailureKind,
    LaunchRecord,
    Outcome,
    PhaseShare,
    Purpose,
    Telemetry,
    Track,
)
from tuner.model.errors import UsageError
from tuner.store import Store
from tuner.study import recorder as journal

TELEMETRY = Telemetry(
    tracks=(
        Track("node1", None, (0.5, 1.0), {"user_cores": (1.5, None), "others_cores": (0.0, 0.0)}),
        Track("node1", 0, (0.5, 1.0), {"threads": (3.0, 4.0)}),
        Track("node1", 1, (), {}),
    ),
    phases=(PhaseShare(0, "exchange", 0.5, 0.125, 0.125, 0.25, "train.py:31 allreduce"),),
    gaps=("Pressure is not recorded.",),
    cost_cores=0.0031,
    interface="lo",
)


def launch(number: int, telemetry: Telemetry | None) -> LaunchRecord:
    ending = Failed(FailureKind.CRASHED, "exit code 1")
    return LaunchRecord(
        *(number, Purpose.SEARCH, BEST, ("mpirun",), {}, f"/nowhere/{number}"),
        started_at=f"2026-01-01T00:00:0{number}+00:00",
        outcome=Outcome(ending, 2.5, 1, telemetry=telemetry),
        machine=MACHINE,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "tune.db"
    with Store.open(f"sqlite:///{found}", create=True) as store:
        store.create(SPEC)
        store.add(SPEC.name, launch(1, None))
        store.add(SPEC.name, launch(2, TELEMETRY))
    return found


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as raw:
        (found,) = raw.execute("SELECT count(*) FROM tune_telemetry").fetchone()
    return int(found)


def test_it_is_read_back_as_it_was(path: Path) -> None:
    with Store.open(f"sqlite:///{path}", create=False) as store:
        assert store.telemetry(SPEC.name, 2) == TELEMETRY
        assert store.telemetry(SPEC.name, 1) is None
        assert store.telemetry(SPEC.name, 3) is None
        with pytest.raises(UsageError, match="no study other"):
            store.telemetry("other", 1)


def test_a_database_without_the_table(path: Path) -> None:
    """That of an earlier version, which is the same but for this."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP TABLE tune_telemetry")
    with Store.open(f"sqlite:///{path}", create=False) as store:
        assert store.telemetry(SPEC.name, 2) is None
    with Store.open(f"sqlite:///{path}", create=True) as store:
        store.add(SPEC.name, launch(3, TELEMETRY))
        assert store.telemetry(SPEC.name, 3) == TELEMETRY


def test_a_row_of_another_program_is_named(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE tune_telemetry SET content = '[1]' WHERE track = 1")
    with (
        Store.open(f"sqlite:///{path}", create=False) as store,
        pytest.raises(UsageError, match="not of tune"),
    ):
        store.telemetry(SPEC.name, 2)


def test_the_record_in_the_folder_is_without(tmp_path: Path) -> None:
    record = launch(2, TELEMETRY)
    entry = journal.Entry(SPEC.name, "2026", {}, record)
    written = journal.text(entry).encode()
    bare = replace(record, outcome=replace(record.outcome, telemetry=None))
    assert journal.parse(written) == replace(entry, record=bare)
    assert len(written) < journal.USUAL_BYTES
