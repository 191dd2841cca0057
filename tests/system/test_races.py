"""Never two measure at once, whoever is killed and whatever happens to the lock file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from campaigns.races import PROCESSES

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_twenty_processes_one_study_and_two() -> None:
    argv = [sys.executable, "-m", "campaigns.races", "--rounds", "5", "--seed", "7"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    assert result["wrong"] == [], done.stderr
    assert done.returncode == 0
    assert result["notes"]["begin"] >= 4 * PROCESSES
    assert result["notes"]["killed"] > 0
