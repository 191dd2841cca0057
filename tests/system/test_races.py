"""Never two measure at once, whoever is killed and whatever happens to the lock file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from campaigns.races import PROCESSES, Part, mistakes

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_twenty_processes_one_study_and_two() -> None:
    argv = [sys.executable, "-m", "campaigns.races", "--rounds", "5", "--seed", "7"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    assert result["wrong"] == [], done.stderr
    assert done.returncode == 0
    assert result["notes"]["begin"] >= 4 * PROCESSES
    assert result["notes"]["killed"] > 0


WAITS = Part("a", True, "well")


@pytest.mark.parametrize(
    ("notes", "cast", "wrong"),
    [
        (["begin 1", "end 1", "begin 2", "killed 2"], [WAITS] * 2, ""),
        (["begin 1", "begin 2", "end 1", "end 2"], [WAITS] * 2, "2 began while 1 measured"),
        (["begin 1", "end 1"], [WAITS] * 2, "1 of 2 had their turn"),
        (["begin 1", "end 1", "refused 2"], [WAITS] * 2, "1 that wait were refused"),
        (["failed:OSError 1"], [], "failed:OSError 1"),
        ([], [], "nobody measured"),
    ],
    ids=["right", "overlap", "lost", "refused", "failed", "nobody"],
)
def test_the_judge_sees_it(notes: list[str], cast: list[Part], wrong: str) -> None:
    found = mistakes(notes, cast)
    assert wrong in found if wrong else not found
