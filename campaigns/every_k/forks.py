"""Runs ``tune`` in forked processes, each with a fault to come; all is imported once."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from alembic import util
from alembic.util import pyfiles

import tuner.study.tuning
from campaigns.every_k.cases import KINDS, Fault
from tests.study_surface import ran, surface
from tuner.cli.main import main as tune_main
from tuner.launch.request import MeasurementRequest
from tuner.model import Outcome
from tuner.study.events import Event, LaunchEnded

#: No run takes longer, s of CPU.
MOST_S = 60

MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n"

#: Five trials, a warm-up and the defaults.
STUDY = """\
name = "surface"
command = ["true", "--out", "{out}", "-t", "{omp_threads}", "-j", "{iterator_workers}"]
mpi_procs = 2

[knobs.omp_threads]
range = "1..4"
baseline = 4

[knobs.iterator_workers]
range = "1..3"
baseline = 3
"""

ARGUMENTS = (
    *("--study", "../../study.toml", "--trials", "5", "--no-confirm", "--min-gain", "0.1%"),
    *("--live", "off"),
    *("--storage", "tune.db", "--mpirun", "../../mpirun"),
)

REAL = tuner.study.tuning.tune


@dataclass(frozen=True)
class Ended:
    """How a run ended: its code (negative: by that signal), how often each kind, its stderr."""

    code: int | None
    counts: dict[str, int]
    said: str


class Diary:
    """What really happened, beside the folder that faults strike: one JSON list a line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.launches = path.read_bytes().count(b'["ended"')

    def note(self, *words: object) -> None:
        os.write(self._file, json.dumps(words).encode() + b"\n")


def fake_run(request: MeasurementRequest, *, diary: Diary) -> Outcome:
    """A launch without processes; each takes a time of its own, by which it is known again."""
    request.launch.out_dir.mkdir(parents=True, exist_ok=True)
    diary.launches += 1
    elapsed_s = round(surface(request.setting) + 1e-4 * diary.launches, 4)  # Optuna gets six digits
    outcome = ran(elapsed_s, on_progress=request.on_progress)
    diary.note("ended", outcome.samples[0].elapsed_s)
    return outcome


def _watched(diary: Diary, real: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """``tune`` with launches without processes; what is reported is noted."""
    show = options.pop("on_event")

    def on_event(event: Event) -> None:
        if isinstance(event, LaunchEnded):
            samples = event.record.outcome.samples
            diary.note("reported", event.record.number, samples[0].elapsed_s)
        show(event)

    return real(*args, **options, on_event=on_event, run=partial(fake_run, diary=diary))


def _read_once() -> None:
    """Optuna has alembic read all its migrations for each storage: half of a case's time."""
    pyfiles.load_python_file = cache(pyfiles.load_python_file)  # type: ignore[assignment]
    util.load_python_file = pyfiles.load_python_file


def _tune(folder: Path, fault: Fault | None) -> int:
    """The study's command in the folder of a case, in this process; counts what it does there."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    os.environ |= {"TUNE_LOCK_DIR": str(work / "lock"), "TMPDIR": str(folder)}
    tuner.study.tuning.tune = partial(_watched, Diary(folder / "diary"), REAL)
    kind = KINDS.index(fault.kind) if fault else -1
    at, error, lasts = (fault.at, fault.error, int(fault.lasts)) if fault else (0, 0, 0)
    shim = ctypes.CDLL(None)
    shim.every_k_count.restype = ctypes.c_long
    shim.every_k_arm(os.fsencode(work), kind, ctypes.c_long(at), error, lasts)
    code = tune_main(ARGUMENTS)
    counts = {kind: shim.every_k_count(number) for number, kind in enumerate(KINDS)}
    shim.every_k_arm(b"", -1, ctypes.c_long(0), 0, 0)
    (folder / "counts").write_text(json.dumps(counts))
    return code


def _be_tune(folder: Path, fault: Fault | None) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))
    sys.exit(_tune(folder, fault))


def run(folder: Path, fault: Fault | None = None) -> Ended:
    """The study's command in the folder of a case, in a process of its own."""
    folder.mkdir(exist_ok=True)
    stderr, counts = folder / "stderr", folder / "counts"
    before = stderr.stat().st_size if stderr.exists() else 0
    counts.write_text("{}")
    child = get_context("fork").Process(target=_be_tune, args=(folder, fault))
    child.start()
    child.join()
    said = stderr.read_bytes()[before:].decode()
    return Ended(child.exitcode, json.loads(counts.read_text()), said)


def prepare(folder: Path) -> None:
    """Write what the runs below a folder need; import and compile all that they use."""
    _read_once()
    (folder / "study.toml").write_text(STUDY)
    (folder / "mpirun").write_text(MPIRUN)
    (folder / "mpirun").chmod(0o755)
    with (folder / "warm-up").open("w") as out:
        kept, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), out, out
        code = _tune(folder / "warm", None)
        sys.stdout, sys.stderr = kept
    assert code == 0, (folder / "warm-up").read_text()
    gc.collect()
    gc.freeze()
