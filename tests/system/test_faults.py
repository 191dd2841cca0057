"""Whatever goes wrong with a real job: nothing is left, nothing lost, and the study goes on.

The catalogue is `tests/faults/rows.py`. Each fault happens to a launch of a small study, with
ranks that have an iterator worker each; a clean launch comes in the end. Some of
`tests/faults/live_rows.py` happen to a running job that is retuned. Runs with the mpirun
of this environment, or with that which ``TUNE_TEST_MPIRUN`` names;
``TUNE_TEST_FAULTS=FILE`` takes the reports (`python -m tests.faults.table FILE`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults import case
from tests.faults.live_rows import SOME
from tests.faults.rows import FAULTS, Fault, groups
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
def test_faults(faults: tuple[Fault, ...], launcher: LauncherInfo) -> None:
    reports = case.run(faults, launcher)
    if path := os.environ.get("TUNE_TEST_FAULTS"):
        with Path(path).open("a") as file:
            file.writelines(report.line + "\n" for report in reports)
    wrong = [report for report in reports if report.problems]
    assert not wrong, "\n".join(report.told for report in wrong)
