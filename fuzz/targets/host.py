"""What the kernel tells in ``/proc`` and ``/sys``, where programs have a say in it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.target import Target
from fuzz.texts import Texts
from tuner.hosts import lock, machine, procfs
from tuner.hosts.supervisor import resource_cleanup, table
from tuner.store import codec, filesystem

_STAT = b" R 1 4711 4711 0 -1 4194304 100 0 0 0 5 3 0 0 20 0 7 0 123456 1000 200 184467 1 1 0 0 0"


@contextmanager
def _instead(module: ModuleType, **functions: Any) -> Iterator[None]:
    """These functions in place of a module's own."""
    own = {name: getattr(module, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(module, name, function)
        yield
    finally:
        for name, function in own.items():
            setattr(module, name, function)


def stat(data: bytes) -> None:
    """``/proc/PID/stat``: a program may have any name; any other line is no process."""
    procfs.parse_stat(data)
    with _instead(table, read=lambda _: data):
        table.look_up(1)
    name = data[:15].replace(b"\0", b"")
    line = b"4711 (" + name + b")" + _STAT
    seen = procfs.parse_stat(line)
    assert seen is not None
    assert (seen.pid, seen.started, seen.threads) == (4711, 123456, 7), line
    with _instead(table, read=lambda _: line):
        found = table.look_up(4711)
    assert found is not None
    assert (found.parent, found.start, found.dead) == (1, 123456, False), line


_STATS = Texts(
    [b"4711 (python3)" + _STAT, b") Z 1 (", b"a) R 2 (b", b"4711 (a b) c)" + _STAT],
    (b")", b"(", b" ", b"\n", b"Z", b") R 1 "),
)


def maps(data: bytes) -> None:
    """``/proc/PID/maps``: only the MPI's own files are ever named for removal."""
    escaped = data.replace(b"\0", b"").replace(b"\n", b"\\012")  # as the kernel does
    line = b"7f0-7f1 rw-s 00000000 00:1a 1234 " + escaped + b"\n"
    with _instead(resource_cleanup, read=lambda _: line):
        for path, inode in resource_cleanup.segments_of([_CHILD]):
            assert Path(os.fsdecode(path)).parent == Path("/dev/shm"), path
            assert inode == 1234, inode


_CHILD = table.Process(2, 5, 1)
_MAPS = Texts(
    [
        b"/dev/shm/sm_segment.node1.0.a.0",
        b"/dev/shm/mpich_shm_x (deleted)",
        b"/dev/shm/vader_segment.n.1",
        b"/usr/bin/python3.11",
    ],
    (b"/dev/shm/sm_segment.", b"/dev/shm/vader_segment.", b"/../", b"\n", b" ", b"(deleted)"),
)


def host(data: bytes) -> None:
    """Every file that tells of CPUs, memory, cgroups and GPUs with the same odd content."""
    parts = [part.decode("utf-8", "replace") for part in data.split(b"\n--\n")]
    count = iter(range(10**6))

    def read(_: Path) -> str:
        return parts[next(count) % len(parts)][:4096].strip()

    environ = {"CUDA_VISIBLE_DEVICES": parts[-1]}
    entries = ["cpu0", "cpu1", "nvidia0", "nvidia²", "0000:00:1e.0"]
    with _instead(machine, _read=read, _entries=lambda _: entries):
        found = machine.this_machine(environ=environ, affinity_cpus=4)
    assert 1 <= found.logical_cpus < 2**31, found
    assert 1 <= found.physical_cores < 2**31, found
    assert found.numa_nodes >= 1, found
    assert found.memory_bytes >= 0, found
    assert found.quota_cpus is None or 0 < found.quota_cpus < math.inf, found
    assert 1 <= found.cores < 2**31, found
    codec.dumps(found)


_HOSTS = Texts(
    [
        b"0-3,8\n--\nmodel name : CPU\nMemTotal: 1024 kB\n--\n0::/user.slice\n--\n100000 100000",
        b"0\n--\nmax 100000\n--\n4:cpu,cpuacct:/docker/x\n0::/x\n--\n-1\n--\n50000\n--\n1,2",
        b"Model: A100\nDevice Minor: 0\nGPU UUID: GPU-abc\n--\n0,1\n--\nGPU-abc",
    ],
    (b"\n--\n", b"max", b"MemTotal: ", b" kB", b"0::/", b"../..", b"MIG-", b"GPU-", b"-", b","),
)


def mounts(data: bytes) -> None:
    """``/proc/self/mountinfo``, with mount points of any name."""
    text = data.decode("utf-8", "surrogateescape")
    kind = filesystem.network_filesystem(Path("/mnt/data/tune.db"), text)
    assert kind is None or kind in filesystem.NETWORK


_MOUNTS = Texts(
    [
        b"36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw\n"
        b"37 36 0:50 / /mnt/data\\040x rw - nfs4 server:/x rw\n",
        b"1 0 8:1 / / rw - overlay overlay rw\n2 1 0:5 / /mnt/data rw - lustre a@tcp:/f rw",
    ],
    (b" - ", b"\\040", b"\\777", b"\\", b"nfs4", b"fuse.sshfs", b"/mnt/data", b"\n", b" "),
)


def locks(data: bytes) -> None:
    """The note of who holds the host; any user of it can have written that."""
    owner = lock.parse_owner(data)
    assert type(owner.pid) is int, owner
    assert 0 <= owner.pid < 2**31, "no process has this id"
    said = str(owner)
    assert said.isprintable(), said
    assert len(said) < 300, "a name that nobody reads"


_NOTES = Texts(
    [b'{"pid": 4711, "study": "mnist-n8", "database": "/x/studies/tune.db"}'],
    (b'"pid"', b"Infinity", b"NaN", b"true", b'"4711"', b'"\\u001b[2J"', b'"\\ud800"', b"[" * 3000),
)

TARGETS = (
    Target("stat", stat, _STATS, share=1.5),
    Target("maps", maps, _MAPS, share=1.0),
    Target("host", host, _HOSTS, share=0.12),
    Target("mountinfo", mounts, _MOUNTS, share=1.0),
    Target("lock_note", locks, _NOTES, share=1.5),
)
