"""Launches under a real launcher, of a study and without one, and what they came to."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.light_trainer import captured
from tests.marked import eventually, marked
from tuner.config.hosts import on_slots
from tuner.hosts import machine
from tuner.launch import launchers, render, trial
from tuner.launch.launchers import discovery
from tuner.launch.request import MeasurementRequest
from tuner.model import (
    BASELINE,
    Failed,
    Finished,
    Launch,
    LauncherInfo,
    Layout,
    Outcome,
    Setting,
    StudySpec,
    Value,
)

#: How each trainer begins: its rank, and a function that writes Chainer's log.
HEAD = """
import json, os, signal, subprocess, sys, time
names = "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK"
out, rank = sys.argv[1], int(next(os.environ[name] for name in names if name in os.environ))

def report(*elapsed):
    log = [{"iteration": n, "elapsed_time": t} for n, t in enumerate(elapsed, 1)]
    draft = f"{out}/draft-{rank}"
    with open(draft, "w") as file:
        json.dump(log, file)
    os.replace(draft, out + "/log")

"""

ENVIRON = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}


def run(spec: StudySpec, setting: Setting, folder: Path) -> Outcome:
    """Launch a setting; afterwards nothing of it may be alive."""
    marker = uuid.uuid4().hex
    launch = render.launch(spec, setting, folder, environ=ENVIRON, cwd=folder.parent, marker=marker)
    try:
        return trial.run(MeasurementRequest(launch, spec, setting))
    finally:
        assert marked(marker) == []


def run_trainer(
    folder: Path,
    code: str,
    *words: str,
    setting: Setting = BASELINE,
    launcher: LauncherInfo | None = None,
    **fields: Any,
) -> Outcome:
    """Launch a trainer on two ranks in ``a trial`` below the folder.

    It finds its output folder and the words in ``sys.argv``; ``fields`` are those of the spec.
    """
    script = folder / "train.py"
    script.write_text(HEAD + code)
    spec = StudySpec(
        "test",
        (sys.executable, str(script), "{out}", *words),
        launcher or discovery.find(None, environ=ENVIRON),
        on_slots(Layout(2), machine.this_machine(), (), {}),
        machine.this_machine(),
        fields.pop("knobs", ()),
        **fields,
    )
    return run(spec, setting, folder / "a trial")


def finished(outcome: Outcome) -> Finished:
    assert isinstance(outcome.ending, Finished), outcome.ending
    return outcome.ending


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome.ending, Failed), outcome.ending
    return outcome.ending


# --- without a study -----------------------------------------------------------------------


def launch_of(
    folder: Path,
    program: Sequence[str],
    *,
    ranks: int,
    info: LauncherInfo | None = None,
    options: Mapping[str, Value] | None = None,
    assigned: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Launch:
    """Python with these arguments on several ranks, each with what is assigned by the wrapper."""
    pytest.importorskip("mpi4py")
    info = info or discovery.find(None, environ=os.environ)
    launcher = launchers.launcher_for(info.kind)
    words = [f"{name}={value}" for name, value in (assigned or {}).items()]
    wrapper = [*launchers.wrapper_argv(), *words, "--"] if words else []
    python = [*wrapper, sys.executable, "-m", "mpi4py", *program]
    layout = on_slots(Layout(ranks), machine.this_machine(), (), {})
    argv = launcher.argv(info, layout, options or {"bind_to": "none"}, python)
    variables = {**os.environ, **launcher.environment(info), **(env or {})}
    return Launch(argv, variables, folder, folder, folder)


@dataclass(frozen=True)
class Done:
    """A trainer that came to its end."""

    code: int
    stdout: str
    stderr: str
    out: Path

    @property
    def log(self) -> list[dict[str, Any]]:
        return list(json.loads((self.out / "log").read_text()))

    @property
    def clean(self) -> bool:
        """Success, with no complaint of Python's (the MPI may have its own)."""
        return self.code == 0 and not ("Traceback" in self.stderr or "Warning" in self.stderr)

    @property
    def errors(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if "error:" in line]


def run_program(folder: Path, program: Path, *flags: str, ranks: int, **env: str) -> Done:
    """Run a shipped trainer to its end in a folder; afterwards nothing of it may be alive."""
    marker = uuid.uuid4().hex
    env = {"TRAINER_TEST": marker, "OMP_NUM_THREADS": "1", **env}
    launch = launch_of(folder, [str(program), *flags], ranks=ranks, env=env)
    done = captured(launch.argv, folder, launch.env, timeout_s=120)
    eventually(lambda: marked(marker, "TRAINER_TEST") == [])
    return Done(done.returncode, done.stdout, done.stderr, folder / "result")
