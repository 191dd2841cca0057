"""A seeded sample of the faults at every k; ``make campaigns`` runs them all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from campaigns.every_k.cases import FAMILIES

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Another part of the cases each time this is raised.
SEED = 4


def test_a_fault_at_any_place_loses_nothing(require_program: Callable[[str], str]) -> None:
    if shutil.which("cc") is None:
        require_program("gcc")
    options = ("--share", "0", "--least", "2", "--seed", str(SEED))
    argv = [sys.executable, "-m", "campaigns.every_k", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    total = next(line.split() for line in done.stdout.splitlines() if line.startswith("all "))
    assert total[1:4] == [str(2 * (len(FAMILIES) + 1)), total[1], "0"]
