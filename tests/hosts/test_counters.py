"""The kernel's files of a host, and what is made of two looks at them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.host_files import plant
from tuner.hosts import counters, procfs
from tuner.hosts.counters import CounterReader, HostCounters, Quota, host_row, is_of_host
from tuner.hosts.procfs import TICKS, CpuTimes
from tuner.model import HOST_COLUMNS


def test_a_host_is_read(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/stat": "cpu0 100 0 50 500 40 0 0 7\ncpu1 9 9 9 9\nprocs_running 3\n",
            "proc/pressure/io": "some avg10=0 total=2000000\n",
            "proc/net/dev": (
                "Inter-|   Receive                 |  Transmit\n"
                " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets\n"
                "    lo: 700 1 0 0 0 0 0 0 700 1\n"
                "  eth0:100 1 0 0 0 0 0 0 20 1 0 0\n"
                "a:b: 1 1 0 0 0 0 0 0 2 1 0 0\n"
                "  eth1: 100 1 0\n"
            ),
            "proc/77/cgroup": "0::/a/b\n",
            "proc/78/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.stat": "usage_usec 9000000\nthrottled_usec 0\n",
            "sys/fs/cgroup/a/cpu.stat": "usage_usec 9500000\nthrottled_usec 3000000\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 99000000\n",
        },
    )
    host = CounterReader(tmp_path, cpus={0})
    for pid in ("77", "78", "79"):
        host.watch_groups(pid)
    found = host.look()
    assert found.cpu == (100 / TICKS, 50 / TICKS, 7 / TICKS, 40 / TICKS, 500 / TICKS)
    assert (found.cpus, found.runnable, found.waited_s) == (1, 3, {"io": 2.0})
    assert found.interfaces == {"lo": 700, "eth0": 120, "a:b": 3}
    assert list(found.quotas.values()) == [Quota(9.0, 0.0), Quota(9.5, 3.0)]
    assert found.own_s > 0
    of_version_1 = b"nr_periods 5\nnr_throttled 2\nthrottled_time 250000000\n"
    assert counters.parse_quota(of_version_1) == Quota(None, 0.25)


START = HostCounters(
    at_s=100.0,
    cpus=2,
    cpu=CpuTimes(10.0, 5.0, 1.0, 2.0, 182.0),
    runnable=2,
    quotas={"a": Quota(10.0, 1.0), "b": Quota(None, 0.0)},
    waited_s={"io": 5.0},
    interfaces={"lo": 1000, "eth0": 500},
    own_s=3.0,
)
END = START._replace(
    at_s=104.0,
    cpu=CpuTimes(14.0, 6.0, 1.2, 2.1, 184.7),
    runnable=6,
    quotas={"a": Quota(12.0, 7.0), "b": Quota(None, 1.0)},
    waited_s={"io": 8.0},
    interfaces={"lo": 5000, "eth0": 600, "eth1": 10**9},
    own_s=3.2,
)


def test_an_interval() -> None:
    row = host_row(START, END, trial_s=4.0)
    assert row.keys() <= HOST_COLUMNS.keys()
    assert {name: pytest.approx(value) for name, value in row.items()} == {
        "user_cores": 1.0,
        "system_cores": 0.25,
        "steal_cores": 0.05,
        "iowait_cores": 0.025,
        "others_cores": 0.2,  # neither of the trial nor of this process
        "runnable_threads": 6.0,
        "throttled_share": 6 / 8,  # six of the eight seconds that were asked for
        "io_pressure_share": 0.75,
        "memory_pressure_share": None,
        "network_bytes_per_s": 1000.0,
    }
    older = END._replace(quotas={"b": Quota(None, 1.0)})  # set against the trial
    row = host_row(START, older, trial_s=3.0)
    assert row["throttled_share"] == 0.25
    row = host_row(START, END._replace(cpus=0), trial_s=4.0)
    assert row["others_cores"] is row["user_cores"] is None


def test_a_synthetic_proc_stat_is_found_out() -> None:
    assert is_of_host(START, END)
    assert not is_of_host(START, END._replace(cpu=START.cpu)), "it stands still"
    assert is_of_host(START, START._replace(at_s=100.02)), "less than it counts in"


PAGE = os.sysconf("SC_PAGE_SIZE")
LINE = (
    b"4711 (%b) R 17 4711 4711 0 -1 4194304 100 0 6 0 500 300 70 30 20 0 7 0 123456 1000 200 18446"
)


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
@example(b") Z 1 (")
def test_a_program_may_have_any_name(name: bytes) -> None:
    procfs.parse_stat(name)
    stat = procfs.parse_stat(LINE.replace(b"%b", name))
    assert stat is not None
    assert (stat.pid, stat.state, stat.parent, stat.major_faults) == (4711, "R", 17, 6)
    assert (stat.user_s, stat.system_s, stat.reaped_s) == (500 / TICKS, 300 / TICKS, 100 / TICKS)
    assert (stat.threads, stat.started, stat.resident_bytes) == (7, 123456, 200 * PAGE)
