"""What must be there after a fault and a recovery, whatever happened."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from campaigns.every_k.forks import Ended

#: How ``tune`` may end if the disk or the database fails.
CODES = {0, 2, 3, 5}


@dataclass(frozen=True)
class Kept:
    """A launch as it is in the database."""

    number: int
    purpose: str
    setting: str
    elapsed_s: float
    trial: int | None


@dataclass(frozen=True)
class CaseDiary:
    """What happened: times of the launches that ended, and (number, time) of the reported."""

    ended: tuple[float, ...]
    reported: tuple[tuple[int, float], ...]


def diary(case: Path) -> CaseDiary:
    """Read what the runs noted so far."""
    path = case / "diary"
    lines = [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []
    return CaseDiary(
        tuple(words[1] for words in lines if words[0] == "ended"),
        tuple((words[1], words[2]) for words in lines if words[0] == "reported"),
    )


def launches(database: Path) -> list[Kept]:
    """The launches in a database, in their order."""
    query = """SELECT number, purpose, setting, elapsed_s, trial FROM tune_launches
        LEFT JOIN tune_samples ON launch_id = tune_launches.id ORDER BY number"""
    with closing(sqlite3.connect(database)) as connection:
        return [Kept(*row) for row in connection.execute(query)]


def journaled(case: Path) -> set[float]:
    """The times of the launches whose own record is whole."""
    found = set()
    for path in (case / "work").glob("*/*/record.json"):
        found.add(json.loads(path.read_text())["record"]["outcome"]["ending"]["elapsed_s"])
    return found


def stated(case: Path, end: Ended, *, killed: bool) -> Iterator[str]:
    """What is wrong with how a run in the folder of a case ended; ``killed``: it was to be."""
    if killed and end.code == -9:
        return
    if end.code not in CODES:
        yield f"exit code {end.code}"
    errors = end.said.count("tune: error:")
    if errors != (end.code != 0):
        yield f"{errors} errors and exit code {end.code}"
    if "Traceback" in end.said or "a defect in tune" in end.said or list(case.glob("tune-error-*")):
        yield "a traceback"


def lasting(case: Path, must: set[float], clean: Sequence[Kept]) -> Iterator[str]:
    """What is wrong once the same command came to its end.

    Args:
        case: Its folder.
        must: Times of launches that were kept or reported before the last run.
        clean: The launches of a study without faults.
    """
    database, seen = case / "work" / "tune.db", diary(case)
    kept = launches(database)
    times = Counter(launch.elapsed_s for launch in kept)
    if [launch.number for launch in kept] != list(range(1, len(kept) + 1)):
        yield f"numbers {[launch.number for launch in kept]}"
    yield from (f"{time} is there {n} times" for time, n in times.items() if n > 1)
    yield from (f"{time} was never measured" for time in times if time not in seen.ended)
    yield from (f"{time} is lost" for time in sorted(must - times.keys()))
    by_time = {launch.elapsed_s: launch.number for launch in kept}
    for number, elapsed_s in seen.reported:
        if by_time.get(elapsed_s) != number:
            yield f"launch {number} was reported and is {by_time.get(elapsed_s)}"
    if _course(kept) != _course(clean):
        yield f"another course: {_course(kept)}"
    yield from _sound(database, kept)
    yield from _unlocked(case)


def _course(kept: Sequence[Kept]) -> list[tuple[str, str]]:
    """What was launched, warm-ups aside: a recovery may make one more."""
    return [(each.purpose, each.setting) for each in kept if each.purpose != "warm-up"]


def _sound(database: Path, kept: Sequence[Kept]) -> Iterator[str]:
    """What is wrong with the database itself, and with Optuna's half of it."""
    with closing(sqlite3.connect(database)) as connection:
        for pragma in ("integrity_check", "foreign_key_check"):
            said = [row[0] for row in connection.execute(f"PRAGMA {pragma}")]
            if said not in ([], ["ok"]):
                yield f"{pragma}: {said}"
        state = connection.execute("SELECT state, launches FROM tune_studies").fetchall()
        if state != [("finished", len(kept))]:
            yield f"studies {state}"
        told = connection.execute(
            """SELECT number, state, value_json, value FROM trials
            JOIN trial_user_attributes AS a ON a.trial_id = trials.trial_id AND key = 'launch'
            LEFT JOIN trial_values AS v ON v.trial_id = trials.trial_id"""
        ).fetchall()
        (left,) = connection.execute(
            "SELECT count(*) FROM trials WHERE state IN ('RUNNING', 'WAITING')"
        ).fetchone()
    ours = {(each.trial, each.number, each.elapsed_s) for each in kept if each.trial is not None}
    theirs = {(number, int(launch), value) for number, _, launch, value in told}
    if ours != theirs or len(told) != len(ours) or {row[1] for row in told} - {"COMPLETE"}:
        yield f"Optuna has {sorted(theirs)}, we {sorted(ours)}"
    if left:
        yield f"{left} trials are left running or waiting"


def _unlocked(case: Path) -> Iterator[str]:
    for path in (case / "work" / "lock").glob("*.lock"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"{path.name} is still held"
