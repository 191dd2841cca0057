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


def test_a_crash_is_told_of_in_its_output(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    with pytest.raises(NothingMeasuredError) as caught:
        give_up(failing(tmp_path, CRASH, STALLED))
    assert f"{tmp_path / 'output.log'}, mend" in caught.value.hint


def test_a_program_without_a_log_has_other_ways(tmp_path: Path) -> None:
    missing = Failed(FailureKind.NO_LOG, "the program ended but wrote no log /x/log")
    with pytest.raises(NothingMeasuredError, match="no log /x/log") as caught:
        give_up(failing(tmp_path, missing, CRASH))
    assert caught.value.hint.startswith(f"Read {tmp_path / 'output.log'}: ")
    assert "--objective wall" in caught.value.hint


@pytest.mark.parametrize(("kept", "name"), [(True, "stacks"), (False, "output.log")])
def test_a_hang_is_told_of_in_its_stacks_where_there_are_some(
    tmp_path: Path, kept: bool, name: str
) -> None:
    if kept:
        (tmp_path / "stacks").mkdir()
    with pytest.raises(NothingMeasuredError) as caught:
        give_up(failing(tmp_path, STALLED, CRASH))
    assert f"{tmp_path / name}, mend" in caught.value.hint
