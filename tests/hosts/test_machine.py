"""What a host has, read from trees made for the test, and which networks hosts share."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from tests.host_files import plant
from tuner.hosts.machine import HostFeatures, host_features, this_machine
from tuner.hosts.networks import Network, common_interfaces, networks, shared
from tuner.model import Machine

UUID = "GPU-aaaaaaaa-1111-2222-3333-444444444444"


def look(root: Path, *, affinity_cpus: int = 8, **environ: str) -> Machine:
    return this_machine(root=root, environ=environ, affinity_cpus=affinity_cpus)


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
        ({"a/b/cpu.max": "max 100000\n"}, None),
        ({"a/b/cpu.max": "400000 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ({"a/b/cpu.max": "max 100000", "cpu.max": "300000 100000"}, 3.0),
        ({"unified/a/b/cpu.max": "100000 100000"}, 1.0),
        ({"a/b/c/cpu.max": "100000 100000", "z/cpu.max": "100000 100000"}, None),
        ({V1.format("quota"): "250000\n", V1.format("period"): "100000\n"}, 2.5),
        ({V1.format("quota"): "-1\n", V1.format("period"): "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_the_quota_of_the_cgroups(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
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
        text = (
            f"Model: \t\t {model}\nIRQ:   \t\t 33\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        )
        plant(tmp_path, {f"proc/driver/nvidia/gpus/0000:0{bus}:00.0/information": text})
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert look(tmp_path, **environ).gpus == expected  # type: ignore[arg-type]


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
        },
    )
    environ = {"LD_PRELOAD": "/a.so", "GLIBC_TUNABLES": "x=1"}
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
    assert shared([H1, (Network("eth0", "10.0.1.2", "10.0.1.0/24"),)]) == {}
    assert not any(network.address.startswith("127.") for network in networks())
