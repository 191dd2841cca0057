"""What a host has, which networks hosts share, and what is made of two looks at its counters."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.host_files import plant
from tuner.hosts import counters, procfs
from tuner.hosts.counters import CounterReader, HostCounters, Quota, host_row, is_of_host
from tuner.hosts.machine import HostFeatures, host_features, this_machine
from tuner.hosts.networks import Network, common_interfaces, networks, shared
from tuner.hosts.procfs import TICKS, CpuTimes
from tuner.model import HOST_COLUMNS, Machine

UUID = "GPU-aaaaaaaa-1111-2222-3333-444444444444"


def look(root: Path, **environ: str) -> Machine:
    return this_machine(root=root, environ=environ, affinity_cpus=8)


def test_cores_nodes_memory_and_model(tmp_path: Path) -> None:
    cpus = {
        f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}\n"
        for n in range(8)
    }
    plant(
        tmp_path,
        {
            **cpus,
            "sys/devices/system/cpu/online": "0-7\n",
            "sys/devices/system/node/online": "0-1,4\n",
            "proc/meminfo": "MemTotal:        1024 kB\nMemFree: 5 kB\n",
            "proc/cpuinfo": "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC 7\n",
        },
    )
    machine = look(tmp_path)
    assert (machine.logical_cpus, machine.physical_cores, machine.numa_nodes) == (8, 4, 3)
    assert (machine.memory_bytes, machine.cpu_model) == (1024 * 1024, "AMD EPYC 7")


V1 = "cpu,cpuacct/docker/x/cpu.cfs_{}_us"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ({"a/b/cpu.max": "max 100000", "cpu.max": "300000 100000"}, 3.0),
        ({"unified/a/b/cpu.max": "100000 100000"}, 1.0),
        ({"a/b/c/cpu.max": "100000 100000", "z/cpu.max": "100000 100000"}, None),
        ({V1.format("quota"): "250000\n", V1.format("period"): "100000\n"}, 2.5),
        ({V1.format("quota"): "-1\n", V1.format("period"): "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_the_quota_of_cgroups(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    own = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/a/b\n"
    plant(tmp_path, {"proc/self/cgroup": own})
    plant(tmp_path / "sys/fs/cgroup", files)
    assert look(tmp_path).quota_cpus == quota


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a/memory.max", "4096", 4096),
        ("a/memory.max", "max", 2**20),
        ("memory/a/memory.limit_in_bytes", "8192", 8192),
        ("memory/memory.limit_in_bytes", "9223372036854771712", 2**20),
    ],
)
def test_the_memory_limit(tmp_path: Path, name: str, text: str, expected: int) -> None:
    own = {"proc/self/cgroup": "3:memory:/a\n0::/a\n", "proc/meminfo": "MemTotal: 1024 kB"}
    plant(tmp_path, {**own, f"sys/fs/cgroup/{name}": text})
    assert look(tmp_path).memory_bytes == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ("NVIDIA H200", "NVIDIA A2")),
        ("", ()),
        ("1, 0", ("NVIDIA A2", "NVIDIA H200")),
        ("0,7,1", ("NVIDIA H200",)),
        (UUID + ",GPU-b", ("NVIDIA H200", "NVIDIA A2")),
        ("GPU-nobody", ()),
        ("MIG-1234", ("MIG device",)),
    ],
)
def test_gpus_whose_device_is_here_in_bus_order_as_cuda_sees_them(
    tmp_path: Path, visible: str | None, expected: tuple[str, ...]
) -> None:
    plant(tmp_path, dict.fromkeys(("dev/nvidia0", "dev/nvidia1", "dev/nvidia-uvm"), ""))
    cards = (("NVIDIA H200", UUID, 1), ("NVIDIA A2", "GPU-b", 0), ("NVIDIA X", "GPU-c", 2))
    for bus, (model, uuid, minor) in enumerate(cards, start=1):
        text = f"Model: \t\t {model}\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        plant(tmp_path, {f"proc/driver/nvidia/gpus/0000:0{bus}:00.0/information": text})
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert look(tmp_path, **environ).gpus == expected


def test_what_knobs_depend_on(tmp_path: Path) -> None:
    arch = sysconfig.get_config_var("MULTIARCH") or ""
    packages = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id": f"{cpu // 2}"
        for cpu in range(3)
    }
    plant(
        tmp_path,
        {
            **packages,
            f"usr/lib/{arch}/libjemalloc.so.2": "",
            "usr/lib64/libtcmalloc_minimal.so.4": "",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "bin/numactl": "",
        },
    )
    (tmp_path / "bin/numactl").chmod(0o755)
    environ = {"LD_PRELOAD": "/a.so", "GLIBC_TUNABLES": "x=1", "PATH": str(tmp_path / "bin")}
    assert host_features(environ, root=tmp_path, glibc="glibc 2.36") == HostFeatures(
        allocators={
            "jemalloc": str(tmp_path / "usr/lib" / arch / "libjemalloc.so.2"),
            "tcmalloc": str(tmp_path / "usr/lib64/libtcmalloc_minimal.so.4"),
        },
        preload="/a.so",
        tunables="x=1",
        huge_pages="madvise",
        glibc=(2, 36),
        sockets=2,
        has_numactl=True,
    )
    assert host_features({}, root=tmp_path / "nothing", glibc="") == HostFeatures({})


H1 = (
    Network("docker0", "172.17.0.1", "172.17.0.0/16"),
    Network("eth0", "10.0.0.1", "10.0.0.0/24"),
    Network("ib0", "10.1.0.1", "10.1.0.0/24"),
    Network("br0", "192.168.9.1", "192.168.9.0/24"),
)
H2 = (
    Network("docker0", "172.17.0.2", "172.17.0.0/16"),
    Network("eth0", "10.0.0.2", "10.0.0.0/24"),
    Network("ib1", "10.1.0.2", "10.1.0.0/24"),
    Network("br0", "192.168.9.1", "192.168.9.0/24"),
)


def test_hosts_share_networks_in_which_each_has_an_address_of_its_own() -> None:
    assert shared([H1, H2]) == {"10.0.0.0/24": (H1[1], H2[1]), "10.1.0.0/24": (H1[2], H2[2])}
    assert common_interfaces([H1, H2]) == ("eth0",), "ib0 and ib1 have no common name"
    assert not any(network.address.startswith("127.") for network in networks())


def test_the_counters_of_a_host_are_read(tmp_path: Path) -> None:
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
