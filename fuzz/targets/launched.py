"""What programs print and write: mpirun's version, a crash's output, the probe's report."""

from __future__ import annotations

import math
import re
from typing import Any

from fuzz.target import Target
from fuzz.targets.asked import MACHINE
from fuzz.texts import Texts
from fuzz.trees import Trees
from tuner.hosts import observe, probe
from tuner.knobs import KNOBS
from tuner.knobs.effects import effects
from tuner.launch import failure
from tuner.launch.launchers.discovery import _last_line
from tuner.launch.launchers.mpich import MPICH
from tuner.launch.launchers.openmpi import OpenMPI
from tuner.launch.launchers.torchrun import Torchrun
from tuner.launch.phases import parse_phases
from tuner.model import FailureKind, Observation, Setting
from tuner.store import codec

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def versions(data: bytes) -> None:
    """What ``mpirun --version`` printed: a version in one printable word, or none."""
    text = data.decode("utf-8", "replace")
    for launcher in (OpenMPI(), MPICH(), Torchrun()):
        found = launcher.version(text)
        if found is not None:
            assert found, "an empty version"
            assert len(found) < 100, "a version that nobody reads"
            assert found.isprintable(), found
            assert " " not in found, found
    line = _last_line(text)
    assert line.isprintable(), line
    assert 0 < len(line) < 1_000, "a line that nobody reads"


_VERSIONS = Texts(
    [
        b"mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
        b"mpirun.openmpi (OpenRTE) 4.1.4\n",
        b"HYDRA build details:\n    Version:                                 4.2.1\n    CC: gcc\n",
        b"torchrun of torch 2.13.0+cpu\n",
        b"Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701 (id: 179630a)\n",
    ],
    (
        b"torchrun of torch ",
        b"(Open MPI) ",
        b"(OpenRTE) ",
        b"HYDRA build details:",
        b"Version: ",
        b"Intel(R) MPI Library",
    ),
)


def output(data: bytes) -> None:
    """The output of a launch that failed: a kind, a line of reason, a tail to show."""
    text = failure.clean(data.decode("utf-8", "replace"))
    assert not _CONTROL.search(text), "an escape that reaches the terminal"
    assert all(len(line) <= failure.LINE_CHARACTERS for line in text.split("\n"))
    assert len(failure.tail(text).split("\n")) <= failure.TAIL_LINES
    code = (None, 1, -9, 127, 134, 255, 10**9, -(10**9))[len(data) % 8]
    kind, reason = failure.explain(code, text)
    assert isinstance(kind, FailureKind)
    assert reason.strip(), "no reason"
    assert "\n" not in reason, "a reason of two lines"
    assert len(reason) < 2_000, "a reason that nobody reads"


_OUTPUTS = Texts(
    [
        b'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n',
        b"-" * 74 + b"\nThere are not enough slots available in the system\n" + b"-" * 74 + b"\n",
        b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 9\n"
        b"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n",
        b"[proxy:0@node1] HYDU_create_process (lib/utils/launch.c:73): execvp error on file x\n",
        b"OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 8\nMemoryError\n",
        b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        + b"=" * 60
        + b"\nRoot Cause (first observed failure):\n  rank      : 1 (local_rank: 1)\n"
        b"  exitcode  : -9 (pid: 7)  (SIGKILL)\n" + b"=" * 60 + b"\n[rank1]: ValueError: x\n",
        b"\x1b[31merror\x1b[0m\rprogress 10 %\rprogress 20 %\r\n",
    ],
    (
        b"-" * 74,
        b"MemoryError",
        b"a.b.Error: ",
        b"\x1b[",
        b"\x9b",
        b"\r",
        b"mpirun detected that ",
        b"[rank0]: ",
        b"  rank      : ",
        b"  exitcode  : ",
        b"=" * 60,
    ),
)

_REPORT: dict[str, Any] = {
    "rank": 0,
    "pid": 4711,
    "launcher_size": 2,
    "affinity": [0, 1],
    "opencv_threads": 4,
    "mpi": {"world_size": 2, "library": "Open MPI v5.0.11"},
    "pools": [
        {"library": "/x/numpy.libs/libscipy_openblas64_.so", "threads": 4, "built_for": 64},
        {"library": "/x/libgomp.so.1", "threads": 4},
    ],
}


def report(data: bytes) -> None:
    """A rank's report: passed over, or a view that can be kept, judged and shown."""
    found = probe.parse_report(data)
    if found is None:
        return
    view = observe._view(found.rank, None, found, opencv_loaded=False)
    seen = Observation((view,))
    assert codec.loads(Observation, codec.dumps(seen)) == seen
    for effect in effects(
        Setting.of({"omp_threads": 4, "opencv_threads": 2}), KNOBS, seen, MACHINE
    ):
        assert codec.dumps(effect).isascii()
        assert effect.observed is None or type(effect.observed) is int, effect
        assert len(effect.reason) < 2_000, "a reason that nobody reads"
        assert not _CONTROL.search(effect.reason), "an escape that reaches the terminal"


_REPORTS = Trees([_REPORT], (*_REPORT, "library", "threads", "built_for", "world_size", "opencv"))


def environ(data: bytes) -> None:
    """``/proc/PID/environ`` of a rank, and its ``stat``, whatever the program calls itself."""
    variables = observe._variables(data)
    torchrun = (observe.TORCHRUN_RANK, observe.TORCHRUN_SIZE)
    for names in (observe.RANK_VARIABLES, observe.SIZE_VARIABLES, torchrun):
        number = observe._first_number(variables, names)
        assert number is None or number >= 0


_ENVIRON = Texts(
    [
        b"PATH=/bin\0OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_SIZE=8\0TUNE_TRIAL=abc\0",
        b"PMI_RANK=0\0PMI_SIZE=2\0",
        b"PMIX_RANK=1\0",
        b"RANK=1\0WORLD_SIZE=2\0TORCHELASTIC_RUN_ID=a\0",
    ],
    (b"\0", b"=", b"PMI_RANK=", b"PMIX_RANK=", b"OMPI_COMM_WORLD_RANK=", "²".encode()),
)


def phases(data: bytes) -> None:
    """What the probe saw a rank do: shares that make a whole, or nothing."""
    shares, busy_s = parse_phases(data, 0)
    assert 0 <= busy_s < math.inf
    if shares:
        assert abs(sum(each.share for each in shares) - 1) < 1e-6
        assert all(each.where.isprintable() for each in shares), "an escape that is shown"


_PHASES = Texts(
    [
        b"loader\t0.03\t0.02\t0.99\ttrain.py:7 next\nexchange\t0.5\t0.0\t0.1\ttrain.py:9 bcast\n"
        b"compute\t1.7\t1.3\t1.0\ttrain.py:5 work\n",
    ],
    (b"\t", b"\n", b"loader\t", b"nan", b"1e308", b"-1", b"\x1b["),
)

TARGETS = (
    Target("mpirun_version", versions, _VERSIONS, share=1.5),
    Target("output", output, _OUTPUTS, share=1.5),
    Target("probe_report", report, _REPORTS, share=0.7),
    Target("probe_phases", phases, _PHASES, share=1.5),
    Target("environ", environ, _ENVIRON, share=1.5),
)
