"""When a study is given up, and where its user is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import CRASH, ran
from tests.study_surface import record as launch
from tuner.model import Failed, FailureKind, LaunchRecord, Purpose, Setting
from tuner.model.errors import LimitReachedError, NothingMeasuredError
from tuner.study.session import give_up

LIMIT = Failed(FailureKind.LIMIT, "ran longer than 2 s")
STALLED = Failed(FailureKind.STALLED, "nothing happened for 9 s: rank 1 is idle")


def failing(folder: Path, *endings: Failed) -> list[LaunchRecord]:
    setting = Setting.of({"omp_threads": 1})
    return [
        replace(launch(n, setting, Purpose.SEARCH, ran(ending)), folder=str(folder))
        for n, ending in enumerate(endings, start=1)
    ]


def test_more_time_is_the_advice_where_that_may_help(tmp_path: Path) -> None:
    with pytest.raises(LimitReachedError, match="each of 2 launches") as caught:
        give_up(failing(tmp_path, LIMIT, LIMIT))
    assert "--trial-limit" in caught.value.hint
    with pytest.raises(NothingMeasuredError, match="2 launches in a row failed"):
        give_up(failing(tmp_path, LIMIT, CRASH))


MISSING = Failed(FailureKind.NO_LOG, "the program ended but wrote no log /x/log")


@pytest.mark.parametrize(
    ("failures", "kept", "hint"),
    [
        ((CRASH, STALLED), True, "output.log, mend"),
        ((STALLED, CRASH), True, "stacks, mend"),
        ((STALLED, CRASH), False, "output.log, mend"),
        ((MISSING, CRASH), False, "output.log: has the program done its work?"),
    ],
)
def test_the_hint_names_the_file_that_says_most_of_the_first_failure(
    tmp_path: Path, failures: tuple[Failed, ...], kept: bool, hint: str
) -> None:
    if kept:
        (tmp_path / "stacks").mkdir()
    with pytest.raises(NothingMeasuredError) as caught:
        give_up(failing(tmp_path, *failures))
    assert caught.value.hint.startswith(f"Read {tmp_path}/{hint}")
    assert ("--objective wall" in caught.value.hint) == (failures[0] is MISSING)
