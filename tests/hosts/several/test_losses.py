"""A sample of the campaigns of losses and of faults on two hosts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hosts.several.bench import Bench

pytestmark = [pytest.mark.system, pytest.mark.slow]


def campaign(*words: str) -> str:
    argv = [sys.executable, "-m", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_fault_on_another_host_has_the_kind_that_it_has_on_this(bench: Bench) -> None:
    faults = ("a rank is killed after its last iteration", "a rank is stopped", "rank 0 is killed")
    said = campaign("campaigns.faults", "--two-hosts", *faults)
    assert said.endswith("3 faults, 0 bad\n"), said


def test_whatever_is_lost_nothing_is_left_and_no_figure_is_wrong(bench: Bench) -> None:
    found = json.loads(campaign("campaigns.losses", "--losses", "2", "--seed", "2"))
    assert sum(found["losses"].values()) == 2
    assert found["wrong"] == []
