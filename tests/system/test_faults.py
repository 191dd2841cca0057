"""Whatever goes wrong with a real job: nothing is left, nothing lost, and the study goes on.

The catalogue is `tests/faults/rows.py`. Each fault happens to a launch of a small study, with
ranks that have an iterator worker each; a clean launch comes in the end. Some happen to a
live job. Runs with the mpirun of this environment, or with that which ``TUNE_TEST_MPIRUN`` names.
"""

from __future__ import annotations

import os

import pytest

from tests.faults import case
from tests.faults.rows import BY_NAME, FAULTS, LIVE, SOME, JobFault, groups
from tuner.launch import launchers
from tuner.model import LauncherInfo

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def launcher() -> LauncherInfo:
    pytest.importorskip("mpi4py")
    return launchers.find(os.environ.get("TUNE_TEST_MPIRUN"), environ=os.environ)


@pytest.mark.parametrize(
    "faults", [*groups(FAULTS), *groups(SOME)], ids=lambda faults: faults[0].name
)
def test_faults(faults: tuple[JobFault, ...], launcher: LauncherInfo) -> None:
    wrong = [report for report in case.run(faults, launcher) if report.problems]
    assert not wrong, "\n".join(report.text for report in wrong)


def test_each_fault_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(FAULTS) + len(LIVE)
