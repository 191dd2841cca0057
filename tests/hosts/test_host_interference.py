"""What others do beside a launch: from trees made for the test, and from a real busy process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host_files import plant
from tests.study_samples import MACHINE
from tuner.hosts import interference
from tuner.hosts.interference import (
    HYPERVISOR,
    Before,
    HostSnapshot,
    before,
    between,
    complaint,
    look,
)
from tuner.hosts.procfs import Stat
from tuner.model import Load

TICKS = os.sysconf("SC_CLK_TCK")

START = HostSnapshot(
    at_s=100.0,
    busy_s=50.0,
    stolen_s=1.0,
    all_s=400.0,
    cpus=4,
    ours_s=7.0,
    throttled_s=3.0,
    hot=5,
    swapped_bytes=4096,
    table=(
        Stat(10, 1, 1, "init", user_s=1.0),
        Stat(20, 2, 1, "python", user_s=9.0),
        Stat(30, 3, 1, "tune", user_s=0.0),
    ),
)

#: Ten seconds later on four CPUs: 25 s busy, of them 20 s of the launch.
END = replace(START, at_s=110.0, busy_s=75.0, all_s=440.0, ours_s=27.0)


def test_a_new_process_of_an_old_id_has_its_own_time() -> None:
    table = (Stat(10, 1, 1, "init", user_s=1.0), Stat(20, 99, 1, "make", user_s=0.3))
    assert between(START, replace(END, table=table), me=30).busiest == ""


def test_time_that_a_hypervisor_gives_to_others_is_theirs() -> None:
    load = between(START, replace(END, stolen_s=6.0, busy_s=70.0), me=30)
    assert load == Load(0.5, HYPERVISOR)


def test_no_time_at_all_tells_nothing() -> None:
    assert between(START, START, me=30) == Load(0.0)


def test_throttling_heat_and_swap_are_what_was_added() -> None:
    end = replace(END, busy_s=70.0, throttled_s=4.5, hot=6, swapped_bytes=12288)
    load = between(START, end, me=30)
    assert (load.throttled_s, load.hot, load.swapped_bytes) == (1.5, True, 8192)


def test_the_counters_are_read(tmp_path: Path) -> None:
    throttle = "sys/devices/system/cpu/cpu0/thermal_throttle"
    plant(
        tmp_path,
        {
            "proc/stat": (
                "cpu  9 9 9 9 9 9 9 9 9 9\n"
                "cpu0 100 20 30 500 40 5 5 7 50 0\n"
                "cpu1 1 1 1 1 1 1 1 1 0 0\n"
                "cpu2 100 0 0 100 0\n"
                "intr 5\n"
            ),
            "proc/77/stat": "77 (a (b) c) S 1 77 77 0 -1 4 0 0 0 0 150 50 9 9 20 0 1 0 4711 0 0\n",
            "proc/78/stat": "78 (half",
            "proc/self/cgroup": "0::/a/b\n",
            "proc/vmstat": "pgpgin 5\npswpin 3\npswpout 4\n",
            "sys/fs/cgroup/a/cpu.stat": "usage_usec 5\nthrottled_usec 2500000\n",
            "sys/fs/cgroup/a/b/cpu.stat": "throttled_usec 500000\n",
            f"{throttle}/core_throttle_count": "3\n",
            f"{throttle}/package_throttle_count": "4\n",
            f"{throttle}/core_throttle_total_time_ms": "900\n",
        },
    )
    found = look(root=tmp_path, cpus={0, 2}, ours_s=1.0, at_s=2.0)
    assert found == HostSnapshot(
        at_s=2.0,
        busy_s=260 / TICKS,
        stolen_s=7 / TICKS,
        all_s=907 / TICKS,
        cpus=2,
        ours_s=1.0,
        throttled_s=2.5,
        hot=7,
        swapped_bytes=7 * os.sysconf("SC_PAGE_SIZE"),
        table=(
            Stat(
                77, 4711, 1, "a (b) c", user_s=150 / TICKS, system_s=50 / TICKS, reaped_s=18 / TICKS
            ),
        ),
    )


def test_the_older_cgroups_count_in_nanoseconds(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/job\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat": "nr_throttled 9\nthrottled_time 1500000000\n",
        },
    )
    assert look(root=tmp_path).throttled_s == 1.5


def test_an_empty_tree_tells_nothing(tmp_path: Path) -> None:
    found = look(root=tmp_path, ours_s=0.0, at_s=0.0)
    assert found == HostSnapshot(0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0, 0, ())
    later = replace(found, at_s=10.0)
    assert between(found, later) == Load(0.0)


def test_a_real_busy_process_is_seen_by_its_name() -> None:
    """However loaded the machine is: a process that spins gets some of it."""
    spin = "import time\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) as other:
        try:
            started = look()
            deadline = time.monotonic() + 60
            while True:
                time.sleep(0.3)
                load = between(started, look())
                if load.others_cores > 0.1 or time.monotonic() > deadline:
                    break
        finally:
            other.kill()
    assert load.others_cores > 0.1


def test_the_work_of_a_child_that_was_waited_for_is_ours() -> None:
    first = look()
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", spin], check=True, start_new_session=True)
    after = look()
    assert after.ours_s - first.ours_s >= 0.3
    others = replace(after, busy_s=first.busy_s + after.ours_s - first.ours_s)
    assert between(first, replace(others, stolen_s=first.stolen_s)).others_cores == 0.0


def test_the_load_of_a_stretch_is_read_at_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([START, END])
    monkeypatch.setattr(interference, "look", lambda members: next(looks))
    assert interference.Neighbourhood().load().others_cores == 0.5


def test_what_runs_on_and_is_named_is_ours(tmp_path: Path) -> None:
    fields = "S 1 77 77 0 -1 4 0 0 0 0 {} 0 {} 0 20 0 1 0 4711 0 0\n"
    trees = {
        "before": {"77": (100, 20), "78": (900, 0)},
        "after": {"77": (400, 120), "78": (950, 0), "79": (30, 0)},
    }
    for name, processes in trees.items():
        stats = {f"proc/{p}/stat": f"{p} (x) {fields.format(*t)}" for p, t in processes.items()}
        plant(tmp_path / name, stats)
    first = look(root=tmp_path / "before", ours_s=1.0, at_s=0.0, members={77})
    after = look(root=tmp_path / "after", ours_s=2.0, at_s=10.0, members={77, 79})
    assert after.ours_s - first.ours_s == pytest.approx(1.0 + 430 / TICKS)
    assert [row.pid for row in first.table] == [row.pid for row in after.table] == [78]
    assert between(first, after).busiest.startswith("pid 78")


# --- before a study ----------------------------------------------------------------------

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
