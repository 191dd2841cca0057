"""Where no running job can measure many settings."""

from __future__ import annotations

import pytest

from tuner.live.windowing import why_cold
from tuner.model import LauncherInfo, ObjectiveSpec

HERE = LauncherInfo("openmpi", "/opt/bin/mpirun", "5.0.11")


@pytest.mark.parametrize("statistic", ["last", "steady"])
def test_the_program_s_own_clock_allows_it(statistic: str) -> None:
    assert why_cold(ObjectiveSpec(statistic=statistic), HERE, {}) == ""


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (ObjectiveSpec("wall"), "a whole launch"),
        (ObjectiveSpec("pattern", pattern="x([0-9])"), "pattern"),
        (ObjectiveSpec(key="samples_per_s"), "logreport:samples_per_s"),
    ],
)
def test_a_figure_that_no_pace_tells_does_not(objective: ObjectiveSpec, said: str) -> None:
    assert said in why_cold(objective, HERE, {})


def test_ranks_on_other_hosts_do_not() -> None:
    far = LauncherInfo("openmpi", "/opt/bin/mpirun", "5.0.11", None, ("--hostfile", "hosts"))
    assert "other hosts" in why_cold(ObjectiveSpec(), far, {})
    assert "other hosts" in why_cold(ObjectiveSpec(), HERE, {"SLURM_JOB_ID": "7"})
