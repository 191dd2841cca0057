"""Bottlenecks that are really made under the real mpirun, and what each launch is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.hosts import machine, process
from tuner.knobs import KNOBS
from tuner.launch import launchers, render, trial
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Finished, Launch, Layout, Outcome, StudySpec
from tuner.results.explain import Cause, Explanation, explain

INSIDE = Path(__file__).parent / "inside"

#: No launch takes so long, s.
LIMIT_S = 90.0

#: CPUs for the whole job under a quota, and the kernel's default period.
QUOTA_CPUS, PERIOD_US = 0.3, 100_000

#: Set if the slow link is below us already.
SLOW_LINK = "TUNE_TEST_SLOW_LINK"

#: Runs a command in a network namespace of its own, in which everything goes through an interface
#: with 40 Mbit/s. An MPI does not start on a loopback interface alone; to the other address goes
#: what goes to it. It lets no more than a packet through at once: after a pause a longer burst
#: would go faster than the link. Its own /sys too: there its counters are.
NAMESPACE = (
    *("unshare", "--net", "--mount", "sh", "-c"),
    "mount -t sysfs sysfs /sys && ip link set lo mtu 1500 up"
    " && ip link add slow0 type veth peer name slow1 && ip address add 10.77.9.1/24 dev slow0"
    " && ip link set slow0 up && ip link set slow1 up"
    ' && tc qdisc add dev lo root tbf rate 40mbit burst 2kb latency 500ms && exec "$@"',
    "sh",
)


# --- around a launch ---------------------------------------------------------------------


@contextmanager
def hogs() -> Iterator[tuple[str, ...]]:
    """As many processes as there are CPUs, each called ``hog``."""
    program = "open('/proc/self/comm', 'w').write('hog')\nwhile True: pass"
    cpus = os.sched_getaffinity(0)
    started = [subprocess.Popen([sys.executable, "-c", program]) for _ in cpus]
    try:
        yield ()
    finally:
        for hog in started:
            hog.kill()
            hog.wait()


def controller() -> tuple[Path, str] | None:
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
    found = controller()
    if found is None:
        yield ()
        return
    folder = found[0] / f"bottleneck-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    part = int(QUOTA_CPUS * PERIOD_US)
    files = {
        "v1": {"cpu.shares": "200000", "cpu.cfs_quota_us": str(part) if quota else "-1"},
        "v2": {"cpu.weight": "10000", "cpu.max": f"{part if quota else 'max'} {PERIOD_US}"},
    }
    try:
        for name, value in files[found[1]].items():
            (folder / name).write_text(value)
        yield ("sh", "-c", f'echo 0 > "{folder}/cgroup.procs"; exec "$@"', "sh")
    finally:
        folder.rmdir()


def quota() -> AbstractContextManager[tuple[str, ...]]:
    """A control group with a quota."""
    return precedence(quota=True)


def call_in_namespace(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command where every interface is slow; it is told that it is there."""
    with precedence() as words:
        return subprocess.run(
            [*words, *NAMESPACE, *command],
            env={**os.environ, SLOW_LINK: "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


# --- the bottlenecks ---------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """One bottleneck.

    ``python`` are the options of ``inside/trainer.py``, ``c`` the arguments of
    ``inside/program.c`` after its log. ``subject`` is part of what the verdict names. ``around``
    gives the words before mpirun. With ``slow_link`` whatever looks at the launch has to run in
    the namespace too.
    """

    name: str
    cause: Cause
    python: str
    c: str = ""
    subject: str = ""
    around: Callable[[], AbstractContextManager[tuple[str, ...]]] = precedence
    slow_link: bool = False

    def lacks(self) -> str:
        """Why it cannot be made here; empty if it can."""
        if self.around is quota and controller() is None:
            return "no control group with a CPU quota can be made (root?)"
        if not self.slow_link or SLOW_LINK in os.environ:
            return ""
        if os.geteuid() != 0:
            return "a network namespace takes root"
        if missing := [name for name in ("unshare", "ip", "tc") if shutil.which(name) is None]:
            return f"no {missing[0]} (iproute2, util-linux)"
        tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
        return f"no slow link: {tried.stderr.strip()[-80:]}" if tried.returncode else ""

    def launch(self, folder: Path, program: Path | None = None) -> tuple[Outcome, Explanation]:
        """Launch the trainer, or ``program``, that without Python."""
        mpirun = launchers.find(None, environ=os.environ)
        if self.slow_link:  # the messages go by TCP
            tcp = ("--mca", "btl", "self,tcp", "--mca", "pml", "ob1")
            mpirun = replace(mpirun, extra_args=tcp)
        trainer = (sys.executable, "-m", "mpi4py", str(INSIDE / "trainer.py"), "--out", "{out}")
        command = (*trainer, *self.python.split())
        if program is not None:
            command = (str(program), "{out}/log", *self.c.split())
        host = machine.this_machine()
        spec = StudySpec("planted", command, mpirun, Layout(2), host, KNOBS, trial_limit_s=LIMIT_S)
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        made = render.launch(
            spec, BASELINE, folder, environ=environ, cwd=folder.parent, marker=uuid.uuid4().hex
        )
        with self.around() as words:

            def behind_them(launch: Launch) -> process.RunningTrial:
                return process.start(replace(launch, argv=(*words, *launch.argv)))

            outcome = trial.run(MeasurementRequest(made, spec, BASELINE), start=behind_them)
        assert isinstance(outcome.ending, Finished), outcome.ending
        return outcome, explain(outcome, BASELINE, spec, host)

    def is_named(self, found: Explanation, *, busy: bool) -> bool:
        """Whether it is what was found.

        With ``busy`` other processes, which no one has planted, may hold the launch back even more.
        """
        causes = [found.suspect, *found.others]
        subject = self.subject
        if busy and self.cause is Cause.OTHERS:
            subject = ""
        elif busy:
            causes = [each for each in causes if each.cause is not Cause.OTHERS] or causes
        return causes[0].cause is self.cause and subject in causes[0].subject


def compiled(folder: Path) -> Path | None:
    """The program without Python; ``None`` if there is no compiler for it."""
    mpicc = Path(launchers.find(None, environ=os.environ).mpirun).with_name("mpicc")
    if not mpicc.exists() or shutil.which("gcc") is None:
        return None
    program = folder / "program"
    command = [str(mpicc), "-O1", "-pthread", "-o", str(program), str(INSIDE / "program.c")]
    subprocess.run(command, check=True)
    return program


PLANTED = (
    Planted("pure compute", Cause.CPU, "--work-ms 100 --iterations 30", "30 100 1 0 -1 0"),
    Planted(
        "CPU hogs beside",
        *(Cause.OTHERS, "--work-ms 60 --iterations 15", "15 60 1 0 -1 0", "hog", hogs),
    ),
    Planted(
        "too many BLAS threads",
        *(Cause.OWN_THREADS, "--matrix 900 --blas 8 --iterations 20", "20 20 8 0 -1 0"),
    ),
    Planted(
        "1 slow loader worker",
        *(Cause.LOADER, "--work-ms 10 --workers 1 --load-ms 90 --iterations 30"),
    ),
    Planted(
        "too many loader workers",
        *(Cause.WORKERS, "--work-ms 5 --workers 6 --worker-ms 100 --iterations 40"),
    ),
    Planted(
        "throttled control group",
        *(Cause.QUOTA, "--work-ms 40 --iterations 12", "12 40 1 0 -1 0", "", quota),
    ),
    Planted(
        "slow link",
        *(Cause.LINK, "--work-ms 10 --megabytes 1 --iterations 10", "10 10 1 1 -1 0"),
        around=lambda: nullcontext(()),
        slow_link=True,
    ),
    Planted(
        "sleeping rank",
        *(Cause.STRAGGLER, "--work-ms 10 --sleepy 1 --sleep-ms 100 --iterations 30"),
        *("30 10 1 0 1 100", "rank 1"),
    ),
)
