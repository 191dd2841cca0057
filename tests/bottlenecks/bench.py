"""One launch with a planted bottleneck, under the real mpirun, and what it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

from tests.bottlenecks.rows import Planted
from tuner.hosts import machine, process
from tuner.knobs import KNOBS
from tuner.launch import launchers, render, trial
from tuner.model import BASELINE, Finished, Launch, Layout, Outcome, StudySpec
from tuner.results.explain import Cause, Explanation, explain

INSIDE = Path(__file__).parent / "inside"

#: No launch takes so long, s.
LIMIT_S = 90.0


def compiled(folder: Path) -> Path | None:
    """The program without Python; ``None`` if there is no compiler for it."""
    mpirun = launchers.find(None, environ=os.environ).mpirun
    mpicc = Path(mpirun).with_name("mpicc")
    program = folder / "program"
    if not mpicc.exists() or shutil.which("gcc") is None:
        return None
    command = [str(mpicc), "-O1", "-pthread", "-o", str(program), str(INSIDE / "program.c")]
    subprocess.run(command, check=True)
    return program


def launch(
    planted: Planted, folder: Path, program: Path | None = None
) -> tuple[Outcome, Explanation]:
    """Run it; ``program`` is that without Python."""
    mpirun = launchers.find(None, environ=os.environ)
    mpirun = replace(mpirun, extra_args=tuple(planted.mpirun.split()))
    host = machine.this_machine()
    command: tuple[str, ...]
    if program is None:
        trainer = str(INSIDE / "trainer.py")
        command = (
            sys.executable,
            "-m",
            "mpi4py",
            trainer,
            "--out",
            "{out}",
            *planted.python.split(),
        )
    else:
        command = (str(program), "{out}/log", *planted.c.split())
    spec = StudySpec("planted", command, mpirun, Layout(2), host, KNOBS, trial_limit_s=LIMIT_S)
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    made = render.launch(
        spec, BASELINE, folder, environ=environ, cwd=folder.parent, marker=uuid.uuid4().hex
    )
    with planted.around.make() as words:

        def behind_them(launch: Launch) -> process.RunningTrial:
            return process.start(replace(launch, argv=(*words, *launch.argv)))

        outcome = trial.run(
            made, spec=spec, setting=BASELINE, expected_iterations=None, start=behind_them
        )
    assert isinstance(outcome.ending, Finished), outcome.ending
    return outcome, explain(outcome, BASELINE, spec, host)


def is_named(planted: Planted, found: Explanation, *, busy: bool) -> bool:
    """Whether the planted bottleneck is what was found.

    With ``busy`` other processes, which no one has planted, may hold the launch back even more.
    """
    causes = [found.found, *found.others]
    subject = planted.subject
    if busy and planted.cause is Cause.OTHERS:
        subject = ""
    elif busy:
        causes = [each for each in causes if each.cause is not Cause.OTHERS] or causes
    return causes[0].cause is planted.cause and subject in causes[0].subject
