"""A seeded sample of the campaign of losses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hosts.several.bench import Bench

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_whatever_is_lost_nothing_is_left_and_no_figure_is_wrong(bench: Bench) -> None:
    argv = [sys.executable, "-m", "campaigns.losses", "--losses", "2", "--seed", "2"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert sum(found["losses"].values()) == 2
    assert found["wrong"] == []
