"""What others do beside a launch: from trees made for the test, and from a real busy process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.host_files import plant, stat_line
from tests.study_samples import MACHINE
from tuner.hosts.counters import HostCounters, Quota
from tuner.hosts.interference import (
    HYPERVISOR,
    HostSnapshot,
    complaint,
    host_snapshot,
    load_between,
)
from tuner.hosts.procfs import TICKS, CpuTimes, Stat
from tuner.model import Load

FOUR = HostCounters(100.0, cpus=4, cpu=CpuTimes(50.0, steal=1.0, idle=349.0))
START = HostSnapshot(
    FOUR._replace(quotas={"a": Quota(5.0, 3.0)}),
    ours_s=7.0,
    hot=5,
    swapped_bytes=4096,
    table=(Stat(10, 1, 1, "init", user_s=1.0), Stat(20, 2, 1, "python", user_s=9.0)),
)
#: Ten seconds later on four CPUs: 25 s busy, of them 20 s of the launch.
LATER = FOUR._replace(at_s=110.0, cpu=CpuTimes(75.0, steal=1.0, idle=364.0))
END = START._replace(counters=LATER, ours_s=27.0)


@pytest.mark.parametrize(
    ("end", "load"),
    [
        (START, Load(0.0)),  # no time at all tells nothing
        (
            END._replace(table=(Stat(20, 2, 1, "python", user_s=12.0),)),
            Load(0.5, "pid 20 (python)"),
        ),
        # A new process of an old id has its own time.
        (END._replace(table=(Stat(20, 99, 1, "make", user_s=0.3),)), Load(0.5)),
        (
            END._replace(counters=LATER._replace(cpu=CpuTimes(70.0, steal=6.0, idle=364.0))),
            Load(0.5, HYPERVISOR),
        ),
        (
            END._replace(
                counters=LATER._replace(quotas={"a": Quota(6.0, 4.5), "new": Quota(0.0, 99.0)}),
                hot=6,
                swapped_bytes=12288,
            ),
            Load(0.5, throttled_s=1.5, hot=True, swapped_bytes=8192),
        ),
    ],
    ids=["at once", "another process", "a new one", "a hypervisor", "quota, heat and swap"],
)
def test_what_others_used_is_neither_the_launchs_nor_tunes(end: HostSnapshot, load: Load) -> None:
    assert load_between(START, end) == load


def test_the_counters_are_read(tmp_path: Path) -> None:
    throttle = "sys/devices/system/cpu/cpu0/thermal_throttle"
    plant(
        tmp_path,
        {
            "proc/stat": "cpu0 100 20 30 500 40 5 5 7 50 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n",
            "proc/77/stat": stat_line(77, started=4711, name="a (b) c", ticks=150),
            "proc/78/stat": "78 (half",
            "proc/self/cgroup": "0::/a/b\n",
            "proc/vmstat": "pgpgin 5\npswpin 3\npswpout 4\n",
            "sys/fs/cgroup/a/cpu.stat": "usage_usec 5\nthrottled_usec 2500000\n",
            f"{throttle}/core_throttle_count": "3\n",
            f"{throttle}/package_throttle_count": "4\n",
            f"{throttle}/core_throttle_total_time_ms": "900\n",
        },
    )
    snapshot = host_snapshot(root=tmp_path, cpus={0})
    assert snapshot.counters.cpu.busy == 160 / TICKS
    assert [quota.held_s for quota in snapshot.counters.quotas.values()] == [2.5]
    assert (snapshot.hot, snapshot.swapped_bytes) == (7, 7 * os.sysconf("SC_PAGE_SIZE"))
    assert snapshot.table == (Stat(77, 4711, 1, "a (b) c", user_s=150 / TICKS),)
    empty = host_snapshot(root=tmp_path / "nothing")
    later = empty._replace(counters=empty.counters._replace(at_s=empty.counters.at_s + 10))
    assert load_between(empty, later) == Load(0.0)


def test_the_work_of_a_child_that_was_waited_for_is_ours() -> None:
    first = host_snapshot()
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", spin], check=True, start_new_session=True)
    assert host_snapshot().ours_s - first.ours_s >= 0.3


def test_what_runs_on_and_is_named_is_ours(tmp_path: Path) -> None:
    trees = {"before": {77: 120, 78: 900}, "after": {77: 520, 78: 950, 79: 30}}
    for name, ticks in trees.items():
        stats = {f"proc/{p}/stat": stat_line(p, started=5, ticks=t) for p, t in ticks.items()}
        plant(tmp_path / name, stats)
    first = host_snapshot({77}, root=tmp_path / "before")
    after = host_snapshot({77, 79}, root=tmp_path / "after")
    assert after.ours_s - first.ours_s >= 430 / TICKS
    assert [row.pid for row in first.table] == [row.pid for row in after.table] == [78]


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (Load(0.02), ""),
        (Load(0.81, "pid 6263 (python, user bob)"), "other processes use 0.81 of"),
        (Load(0.0, throttled_s=0.2), "the CPU quota of its cgroup is used up"),
        (Load(0.0, hot=True), "CPUs are slowed down for their temperature"),
        (Load(0.0, swapped_bytes=1), "memory is swapped"),
    ],
    ids=["none", "others", "quota", "hot", "swap"],
)
def test_before_a_study_each_thing_that_is_amiss_is_told(load: Load, said: str) -> None:
    begin = f"this machine is not quiet: {said}" if said else ""
    text = complaint(load, MACHINE)
    assert text.startswith(begin) and bool(text) == bool(said)
    assert load.busiest in text
