"""What is made around a launch: hogs beside it, a quota over it, a slow link below it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

#: Of a CPU for the whole job.
QUOTA_CPUS = 0.3
PERIOD_US = 100_000  # the kernel's default

#: Set if the slow link is below us already.
INSIDE = "TUNE_TEST_SLOW_LINK"

#: A network namespace of its own, in which everything goes through an interface with 40 Mbit/s.
#: An MPI does not start on a loopback interface alone; to the other address goes what goes to it.
#: Its own /sys too: there its counters are.
SLOW = (
    "mount -t sysfs sysfs /sys && ip link set lo mtu 9000 up"
    " && ip link add slow0 type veth peer name slow1 && ip address add 10.77.9.1/24 dev slow0"
    " && ip link set slow0 up && ip link set slow1 up"
    ' && tc qdisc add dev lo root tbf rate 40mbit burst 128kbit latency 500ms && exec "$@"'
)

#: Gives the words that stand before mpirun.
Made = AbstractContextManager[tuple[str, ...]]


@dataclass(frozen=True)
class Around:
    """Something around a launch; ``lacks`` says why it cannot be made here.

    With ``namespace`` whatever looks at the launch has to run in the same place.
    """

    make: Callable[[], Made]
    lacks: Callable[[], str] = lambda: ""
    namespace: bool = False


@contextmanager
def _hogs() -> Iterator[tuple[str, ...]]:
    """As many processes as there are CPUs, each called ``hog``."""
    program = "open('/proc/self/comm', 'w').write('hog')\nwhile True: pass"
    hogs = [
        subprocess.Popen([sys.executable, "-c", program])
        for _ in range(len(os.sched_getaffinity(0)))
    ]
    try:
        yield ()
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def _controller() -> tuple[Path, str] | None:
    """The folder in which groups with a CPU quota can be made, and the version's files."""
    v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own = v1 / path.strip("/")
        if "cpu" in controllers.split(",") and own.is_dir() and os.access(own, os.W_OK):
            return own, "v1"
    subtree = v2 / "cgroup.subtree_control"
    if subtree.is_file() and "cpu" in subtree.read_text().split() and os.access(v2, os.W_OK):
        return v2, "v2"
    return None


@contextmanager
def precedence(quota: bool = False) -> Iterator[tuple[str, ...]]:
    """A control group that others on the host hardly slow down, with a quota or without.

    What comes before a command puts it there: nothing if no group can be made.
    """
    found = _controller()
    if found is None:
        yield ()
        return
    folder = found[0] / f"bottleneck-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    part = int(QUOTA_CPUS * PERIOD_US)
    files = {
        "v1": [("cpu.shares", "200000"), ("cpu.cfs_quota_us", str(part) if quota else "-1")],
        "v2": [("cpu.weight", "10000"), ("cpu.max", f"{part if quota else 'max'} {PERIOD_US}")],
    }
    try:
        for name, value in files[found[1]]:
            (folder / name).write_text(value)
        yield ("sh", "-c", f'echo 0 > "{folder}/cgroup.procs"; exec "$@"', "sh")
    finally:
        folder.rmdir()


def _no_quota() -> str:
    return "" if _controller() else "no control group with a CPU quota can be made (root?)"


def _no_link() -> str:
    if INSIDE in os.environ:
        return ""
    if os.geteuid() != 0:
        return "a network namespace takes root"
    missing = [name for name in ("unshare", "ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]} (iproute2, util-linux)"
    tried = subprocess.run([*in_namespace(), "true"], capture_output=True, text=True, check=False)
    return f"no slow link: {tried.stderr.strip()[-80:]}" if tried.returncode else ""


def in_namespace() -> tuple[str, ...]:
    """What runs a command where every interface is slow."""
    return ("unshare", "--net", "--mount", "sh", "-c", SLOW, "sh")


def call_in_namespace(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command there, which is told that it is there."""
    with precedence() as words:
        return subprocess.run(
            [*words, *in_namespace(), *command],
            env={**os.environ, INSIDE: "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


NOTHING = Around(precedence)
HOGS = Around(_hogs)
QUOTA = Around(lambda: precedence(quota=True), _no_quota)
LINK = Around(lambda: nullcontext(()), _no_link, namespace=True)
