"""Whatever another program or a bad disk did to a database: one error says where, and it ends."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.study_surface import CONFIRMED, CRASH, FakeRunner, records_in, study_in, surface
from tuner.model import Failed, Setting
from tuner.model.errors import TunerError, UsageError
from tuner.store.store import Store

SPEC = replace(CONFIRMED, trials=4)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a study that has ended; its second launch has failed."""
    folder, numbers = tmp_path_factory.mktemp("kept"), count(1)

    def time_s(setting: Setting) -> float | Failed:
        return CRASH if next(numbers) == 2 else surface(setting)

    study_in(folder, FakeRunner(time_s), SPEC)
    return folder / "tune.db"


@pytest.fixture
def path(kept: Path, tmp_path: Path) -> Path:
    """A copy of that database."""
    return Path(shutil.copy(kept, tmp_path / "tune.db"))


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(script)


def of_study(key: str, changed: str) -> str:
    """Changes the attribute of the study to the value of an SQL expression."""
    return f"UPDATE study_user_attributes SET value_json = {changed} WHERE key = 'tune:{key}'"


def of_launch(changed: str, *, key: str = "tune:record") -> str:
    """Changes an attribute of the trial of launch 3 to the value of an SQL expression."""
    return (
        f"UPDATE trial_user_attributes SET value_json = {changed} WHERE key = '{key}' AND trial_id"
        " = (SELECT trial_id FROM trial_user_attributes WHERE key = 'launch' AND value_json = '3')"
    )


def with_part(part: str, value: str) -> str:
    """The SQL expression of a document with another part."""
    return f"json_set(value_json, '$.{part}', json('{value}'))"


def read(path: Path) -> None:
    """Everything that is read of a study."""
    with Store.open(f"sqlite:///{path}", create=False) as store:
        store.studies()
        store.load(SPEC.name)
        for record in store.launches(SPEC.name):
            store.telemetry(SPEC.name, record.number)
        store.folders(SPEC.name)


def go_on(path: Path) -> None:
    """Resume the study, which goes on as its seed is another one."""
    study_in(path.parent, FakeRunner(), replace(SPEC, trials=5, seed=SPEC.seed + 1))


def check_that_it_goes_on_or_says_why(path: Path) -> None:
    try:
        go_on(path)
    except TunerError as error:
        assert str(path) in error.message and error.hint
        assert len(error.message) < 1000
        assert error.exit_code == 2


@pytest.mark.parametrize(
    ("script", "where"),
    [
        (of_study("study", with_part("form", "99")), "this tune knows form 5"),
        (of_study("study", with_part("identity", "[]")), "study 'surface'"),
        (of_study("study", "'{'"), "study 'surface'"),
        (of_study("state", with_part("state", '"strange"')), "study 'surface'"),
        (of_study("summary", with_part("best_s", '"abc"')), "study 'surface'"),
        ("DELETE FROM study_user_attributes WHERE key = 'tune:study'", "study 'surface'"),
        (of_study("study", "printf('%.*c', 40000000, '[')"), "study 'surface'"),
        (of_launch(with_part("outcome.wall_s", '"abc"')), "launch 3 of 'surface'"),
        (of_launch(with_part("outcome.ending.type", '"Strange"')), "launch 3 of 'surface'"),
        (of_launch("'[]'"), "launch 3 of 'surface'"),
        ("UPDATE tune_seen SET ranks = '[1]'", "launch 1 of 'surface'"),
        ("DROP TABLE tune_seen; CREATE TABLE tune_seen (x)", "tune_seen"),
        ("UPDATE trials SET number = 'abc'", "'abc' is not a number"),
        ("DROP TABLE trial_user_attributes", "trial_user_attributes"),
    ],
)
def test_a_damaged_or_foreign_row_is_named_in_an_error(path: Path, script: str, where: str) -> None:
    change(path, script)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(path) in caught.value.message and where in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 1000
    check_that_it_goes_on_or_says_why(path)


#: Damage to what Optuna alone reads.
OPTUNAS = {
    "a distribution": "UPDATE trial_params SET distribution_json = '{'",
    "the same number": "UPDATE trials SET number = 1",
    "the number of a launch": of_launch("'7x'", key="launch"),
    "an attribute": of_launch("'{'", key="purpose"),
    "a state": "UPDATE trials SET state = 'STRANGE'",
    "no values": "DELETE FROM trial_values",
    "a table": "DROP TABLE trial_params",
    "another version": "UPDATE alembic_version SET version_num = 'v99'",
    "no comparison": "DELETE FROM studies WHERE study_name = 'surface/comparison'",
}


@pytest.mark.parametrize("damage", OPTUNAS)
def test_what_optuna_cannot_read_is_one_error_and_the_rest_shows(path: Path, damage: str) -> None:
    before = records_in(path.parent)
    change(path, OPTUNAS[damage])
    check_that_it_goes_on_or_says_why(path)
    if damage not in {"the same number", "no comparison"}:
        read(path)
        assert records_in(path.parent)[: len(before)] == before


def test_without_our_own_table_a_study_is_read_and_goes_on(path: Path) -> None:
    before = records_in(path.parent, detail=False)
    change(path, "DROP TABLE tune_seen")
    read(path)
    assert records_in(path.parent) == before
    go_on(path)
    assert records_in(path.parent, detail=False)[: len(before)] == before


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_are_never_a_defect_of_tune(path: Path, seed: int) -> None:
    content, source = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(300):
        content[source.randrange(0 if seed % 2 else 100, len(content))] ^= source.randrange(1, 256)
    path.write_bytes(content)
    for use in (read, go_on):
        try:
            use(path)
        except TunerError as error:
            assert error.exit_code == 2, error
