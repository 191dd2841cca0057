"""What is said of a machine before a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_samples import MACHINE
from tuner.hosts.quiet import Before, before, complaint
from tuner.model import Load

CPUS = MACHINE.affinity_cpus
QUIET = Before(Load(0.02), load_average=9.0, clock_khz=3_500_000, full_khz=3_500_000)


def test_of_a_quiet_machine_nothing_is_said() -> None:
    assert complaint(QUIET, MACHINE) == ""
    assert complaint(Before(Load(0.0)), MACHINE) == ""


def test_others_are_told_with_the_greatest_of_them() -> None:
    seen = replace(QUIET, load=Load(0.81, "pid 6263 (python, user bob)"))
    assert complaint(seen, MACHINE) == (
        f"this machine is not quiet: other processes use 0.81 of {CPUS} cores,"
        " above all pid 6263 (python, user bob) (load average 9.0)"
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (replace(QUIET, load=Load(0.0, throttled_s=0.2)), "the CPU quota of its cgroup is used up"),
        (replace(QUIET, load=Load(0.0, hot=True)), "CPUs are slowed down for their temperature"),
        (replace(QUIET, load=Load(0.0, swapped_bytes=1)), "memory is swapped"),
        (replace(QUIET, clock_khz=2_000_000), "a CPU is held at 2.0 of 3.5 GHz"),
    ],
    ids=["quota", "hot", "swap", "clock"],
)
def test_each_thing_that_is_amiss_is_told(seen: Before, said: str) -> None:
    assert complaint(seen, MACHINE) == f"this machine is not quiet: {said}"


def test_the_slowest_clock_is_found(tmp_path: Path) -> None:
    for cpu, most in (("cpu0", 3_000_000), ("cpu1", 1_200_000), ("cpu2", 0)):
        folder = tmp_path / "sys/devices/system/cpu" / cpu / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_max_freq").write_text(f"{most}\n" if most else "<unknown>\n")
        (folder / "cpuinfo_max_freq").write_text("3000000\n")
    seen = before(root=tmp_path, pause=lambda _: None)
    assert (seen.clock_khz, seen.full_khz) == (1_200_000, 3_000_000)


def test_this_machine_is_looked_at() -> None:
    waited: list[float] = []
    seen = before(pause=waited.append)
    assert waited
    assert seen.load.others_cores >= 0
