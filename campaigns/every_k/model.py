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
    query = """SELECT study_name NOT LIKE '%/comparison', number, value_json FROM trials
        JOIN studies USING (study_id) JOIN trial_user_attributes USING (trial_id)
        WHERE key = 'tune:record'"""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(query).fetchall()
    kept = []
    for is_search, trial, text in rows:
        record = json.loads(text)
        setting = json.dumps(record["setting"], sort_keys=True)
        elapsed_s = record["outcome"]["ending"].get("elapsed_s")
        own = trial if is_search else None
        kept.append(Kept(record["number"], record["purpose"], setting, elapsed_s, own))
    return sorted(kept, key=lambda launch: launch.number)


def journaled(case: Path) -> set[float]:
    """The times of the launches whose own record is whole."""
    paths = (case / "work").glob("*/*/record.json")
    records = (json.loads(path.read_text())["record"] for path in paths)
    return {record["outcome"]["ending"]["elapsed_s"] for record in records}


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
    numbers = [launch.number for launch in kept]
    if len({*numbers}) != len(numbers):  # one that was cut off keeps its own
        yield f"numbers {numbers}"
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
    """What is wrong with the database itself, and with what Optuna is told."""
    with closing(sqlite3.connect(database)) as connection:
        for pragma in ("integrity_check", "foreign_key_check"):
            said = [row[0] for row in connection.execute(f"PRAGMA {pragma}")]
            if said not in ([], ["ok"]):
                yield f"{pragma}: {said}"
        attributes = connection.execute(
            """SELECT key, value_json FROM study_user_attributes
            WHERE key IN ('tune:state', 'tune:summary')"""
        )
        study = {key: json.loads(text) for key, text in attributes}
        state = study["tune:state"]["state"], study["tune:summary"]["launches"]
        if state != ("finished", len(kept)):
            yield f"the study is {state}"
        told = connection.execute(
            """SELECT number, state, value_json, value FROM trials
            JOIN trial_user_attributes AS a ON a.trial_id = trials.trial_id AND key = 'launch'
            LEFT JOIN trial_values AS v ON v.trial_id = trials.trial_id"""
        ).fetchall()
        unseen = connection.execute(
            """SELECT count(*) FROM trials WHERE state = 'COMPLETE'
            AND trial_id NOT IN (SELECT trial_id FROM tune_seen)"""
        ).fetchone()
        (left,) = connection.execute(
            "SELECT count(*) FROM trials WHERE state IN ('RUNNING', 'WAITING')"
        ).fetchone()
    ours = {(each.number, each.elapsed_s) for each in kept}
    theirs = {(int(launch), value) for _, state, launch, value in told if state == "COMPLETE"}
    if ours != theirs:
        yield f"Optuna is told {sorted(theirs)}, kept are {sorted(ours)}"
    if unseen != (0,):
        yield f"of {unseen[0]} launches there is nothing that was seen"
    if left:
        yield f"{left} trials are left running or waiting"


def _unlocked(case: Path) -> Iterator[str]:
    for path in (case / "work" / "lock").glob("*.lock"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"{path.name} is still held"
