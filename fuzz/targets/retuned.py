"""What rank 0 of a running job says."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from fuzz.target import Target
from fuzz.targets.asked import MACHINE
from fuzz.trees import Trees
from tuner.knobs import KNOBS
from tuner.live import messages
from tuner.live.messages import Steps, Switched, WireError
from tuner.live.readback import effects_of, observed
from tuner.live.windows import Iterations, estimate
from tuner.model import LauncherInfo, Layout, Observation, Setting, StudySpec
from tuner.store import codec

_HELLO: dict[str, Any] = {
    "type": "hello",
    "protocol": 2,
    "ranks": 2,
    "pid": 4711,
    "hook": "chainer",
    "transport": "mpi4py",
    "can": {"omp_threads": 2, "communicator": "naive", "prefetch": None},
    "iteration": 1,
}
_STEPS: dict[str, Any] = {"type": "steps", "first": 7, "s": [0.5, 0.25, 0.125], "marks": [8]}
_SWITCHED: dict[str, Any] = {
    "type": "switched",
    "number": 3,
    "iteration": 9,
    "took_s": 0.25,
    "ranks": [
        {
            "rank": 0,
            "pid": 4711,
            "blas_threads": 2,
            "opencv_threads": None,
            "pools": [["numpy.libs/libscipy_openblas64_.so", 2]],
            "affinity": [0, 1],
            "values": {"omp_threads": 2, "iterator_workers": "1\x1b[2J"},
            "errors": {"prefetch": "no such thing"},
        }
    ],
}
_MPIRUN = LauncherInfo("openmpi", "/opt/mpi/bin/mpirun", "5.0.11")
_SPEC = StudySpec("s", ("python", "{out}"), _MPIRUN, Layout(2), MACHINE, KNOBS)
_ASKED = Setting.of({"omp_threads": 4, "iterator_workers": 2})


def message(data: bytes) -> None:
    """A line of the job: refused, passed over, or something that can be counted, kept and shown."""
    with contextlib.suppress(WireError):
        found = messages.parse(data)
        if isinstance(found, Steps):
            _counted(found)
        if isinstance(found, Switched):
            _kept(found)


def _counted(steps: Steps) -> None:
    assert all(0 <= time_s < math.inf for time_s in steps.times_s)
    if steps.times_s:
        iterations = Iterations()
        for number, time_s in enumerate(steps.times_s, steps.first):
            iterations.add(time_s, number in steps.marks)
        batches = iterations.counted
        told = estimate(batches.means, batches.each)
        assert not told.iterations or 0 <= told.pace_s < math.inf


def _kept(switched: Switched) -> None:
    seen = observed(Observation(), switched.ranks)
    assert codec.loads(Observation, codec.dumps(seen)) == seen
    for effect in effects_of(_ASKED, _SPEC, seen, switched.ranks):
        assert codec.dumps(effect).isascii()
        assert len(effect.reason) < 2_000, "a reason that nobody reads"
        assert effect.reason.isprintable(), "an escape that reaches the terminal"
    for rank in switched.ranks:
        assert all(error.isprintable() and len(error) < 1_000 for error in rank.errors.values())


_LINES = Trees([_HELLO, _STEPS, _SWITCHED], (*_HELLO, *_STEPS, *_SWITCHED, "switched", "hello"))

TARGETS = (Target("live_line", message, _LINES, share=0.7),)
