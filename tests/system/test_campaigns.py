"""A seeded sample of each campaign; ``make campaigns`` runs them for hours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter

import pytest

from campaigns import exports_inert, soak
from campaigns.every_k.cases import FAMILIES
from campaigns.phases import LIVE_PHASES, PHASES
from campaigns.races import PROCESSES
from tests.faults import case
from tests.faults.rows import FAULTS, SOME, JobFault, groups
from tuner.launch.launchers import discovery
from tuner.model import LauncherInfo

pytestmark = pytest.mark.system
slow = pytest.mark.slow


def campaign(name: str, *options: str) -> str:
    argv = [sys.executable, "-m", f"campaigns.{name}", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def launcher() -> LauncherInfo:
    """The mpirun of this environment, or that which ``TUNE_TEST_MPIRUN`` names."""
    pytest.importorskip("mpi4py")
    return discovery.find(os.environ.get("TUNE_TEST_MPIRUN"), environ=os.environ)


@pytest.mark.parametrize(
    "faults", [*groups(FAULTS), *groups(SOME)], ids=lambda faults: faults[0].name
)
@slow
def test_faults(faults: tuple[JobFault, ...], launcher: LauncherInfo) -> None:
    wrong = [report for report in case.run(faults, launcher) if report.problems]
    assert not wrong, "\n".join(report.text for report in wrong)


@slow
def test_a_short_soak(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mpi4py")
    assert soak.main(["--trials", "4", "--seed", "1"]) == 0, capfd.readouterr().out


@slow
def test_a_fault_at_any_place_loses_nothing(require_program: Callable[[str], str]) -> None:
    if shutil.which("cc") is None:
        require_program("gcc")
    said = campaign("every_k", "--share", "0", "--least", "2", "--seed", "4")
    total = next(line.split() for line in said.splitlines() if line.startswith("all "))
    assert total[1:4] == [str(2 * (len(FAMILIES) + 1)), total[1], "0"]


@slow
def test_twenty_processes_with_one_study_and_two_never_measure_at_once() -> None:
    result = json.loads(campaign("races", "--rounds", "5", "--seed", "7"))
    assert result["wrong"] == []
    assert result["notes"]["begin"] >= 4 * PROCESSES
    assert result["notes"]["killed"] > 0


@pytest.mark.parametrize(
    "which", [["--part", "1/2"], ["--part", "2/2"], ["--phase=during a switch"]], ids=" ".join
)
@slow
def test_a_signal_at_every_phase_of_a_trial_ends_it_cleanly(which: list[str]) -> None:
    pytest.importorskip("mpi4py")
    results = [json.loads(line) for line in campaign("phases", *which).splitlines()]
    assert results
    assert not any(result["wrong"] for result in results)


@pytest.mark.parametrize("name", sorted({name for name, *_ in (PHASES | LIVE_PHASES).values()}))
def test_what_a_phase_patches_exists(name: str) -> None:
    module, _, path = name.partition(":")
    assert callable(attrgetter(path)(import_module(f"tuner.{module}")))


def test_hostile_exports_have_no_effect_beyond_their_own() -> None:
    assert exports_inert.main(40, seed=11) > 40 * len(exports_inert.SHELLS)
