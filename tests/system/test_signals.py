"""The first signal ends a study cleanly in every phase of a trial, the second at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("mpi4py")
pytestmark = [pytest.mark.system, pytest.mark.slow]

PARTS = 2

#: Of a live job; ``--live --all`` has every signal in every phase.
LIVE = "during a switch"


@pytest.mark.parametrize(
    "which",
    [*(["--part", f"{part}/{PARTS}"] for part in range(1, PARTS + 1)), [f"--phase={LIVE}"]],
    ids=" ".join,
)
def test_signals_at_every_phase_of_a_trial(which: list[str]) -> None:
    """Each phase with one of the signals; ``python -m campaigns.phases --all`` has them all."""
    argv = [sys.executable, "-m", "campaigns.phases", "--seed", "1", *which]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert results, done.stderr
    assert {result["case"]: result["wrong"] for result in results if result["wrong"]} == {}
    assert done.returncode == 0, done.stderr
