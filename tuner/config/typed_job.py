"""A job as its user types it: what it is, and its line with a setting.

A job waits for this, so it imports little.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.config import first_study, program
from tuner.config.typed_launch import typed_launch
from tuner.launch.command import BARE
from tuner.launch.launch_line import LAUNCHERS, TORCHRUN, launch_line, options_of
from tuner.model import JobFacts, LineChange, Machine

#: Programs that start the one that is meant.
_STARTER = re.compile(
    r"(python|pypy)[\d.]*|(ba|da|k|z)?sh|env|julia|Rscript|perl|ruby|java|node|uv|conda|mamba|poetry"
    r"|apptainer|singularity|docker|podman"
)

#: How much of a program's file tells it from another one, beside its length, bytes.
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class TypedJob:
    """A line that starts a job, in parts: ``words`` is all of it.

    ``keys`` are those of a study file for what the launcher is told, and ``program`` is what each
    rank runs.
    """

    words: tuple[str, ...]
    launcher: tuple[str, ...]
    launcher_options: tuple[str, ...]
    program: tuple[str, ...]
    keys: Mapping[str, Any]

    def with_change(self, change: LineChange) -> tuple[str, ...]:
        """Return the line with what a setting adds to it."""
        if change == LineChange():
            return self.words
        words = self.program
        for name, value in change.options:
            words, _ = first_study.with_option(words, [name], value)
        environment = ("env", *change.environment) if change.environment else ()
        return (
            *self.launcher,
            *change.launcher,
            *self.launcher_options,
            *environment,
            *change.prefix,
            *(word for word in words if word != BARE),
            *change.appended,
        )


def read(words: Sequence[str], environ: Mapping[str, str]) -> TypedJob:
    """Take a typed line apart; ``UsageError`` if no study can start what it starts."""
    words, line = tuple(words), launch_line(words)
    if line is None or line.name not in LAUNCHERS:  # another launcher is refused as a program
        return TypedJob(words, (), (), words, {"mpi_procs": 1, "launcher": "none"})
    keys, ranks_program = typed_launch(line, environ)
    syntax = LAUNCHERS[line.name]
    options, rest = options_of(syntax, line.arguments)
    launcher_options = line.arguments[: len(line.arguments) - len(rest)]
    if syntax is TORCHRUN:  # it starts Python itself, unless it is told that a program follows
        is_kept = [o.words for o in options if o.name not in ("m", "module", "no-python")]
        launcher_options = (*(word for words_ in is_kept for word in words_), "--no-python")
    return TypedJob(words, line.launcher, launcher_options, ranks_program, keys)


def facts(job: TypedJob, machine: Machine, environ: Mapping[str, str]) -> JobFacts:
    """Return what the fastest setting of a job depends on."""
    path = _path(program.script_of(job.program) or job.program[0], environ)
    digest, name = _file_digest(path), path.name
    if _STARTER.fullmatch(name):  # which of the words names the program is not known: all of them
        digest = _words_digest(job.program)
    launcher = ""
    if job.launcher:
        file, options = _path(job.launcher[0], environ), job.keys.get("mpirun_args", ())
        parts = (Path(job.launcher[0]).name, _file_digest(file), _words_digest(options))
        launcher = " ".join(parts)
    hosts = str(job.keys.get("hosts", "")).count(",") + 1
    if "hosts" not in job.keys:
        hosts = int(environ.get("SLURM_JOB_NUM_NODES", "1"))
    ranks = job.keys.get("mpi_procs") or job.keys.get("ppn", 0) * hosts
    cpus = f"{machine.logical_cpus} CPUs on {machine.physical_cores} cores"
    limits = f"{machine.affinity_cpus} allowed, quota {machine.quota_cpus}"
    nodes = f"{machine.numa_nodes} NUMA nodes"
    return JobFacts(
        program=f"{path} {digest}" if _STARTER.fullmatch(name) else str(path),
        program_digest=digest,
        arguments_digest=_words_digest(job.program[1:]),
        launcher=launcher,
        ranks=ranks or int(environ.get("SLURM_NTASKS", "0")),
        hosts=hosts,
        host_type=", ".join((machine.cpu_model, cpus, limits, nodes, *machine.gpus)),
    )


def _path(word: str, environ: Mapping[str, str]) -> Path:
    on_path = None if "/" in word else shutil.which(word, path=environ.get("PATH"))
    return Path(on_path or word).resolve()


def _file_digest(path: Path) -> str:
    """Return a digest of a file's length and first part; that of nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return _digest(b"%d " % path.stat().st_size + file.read(_READ_BYTES))
    except OSError:
        return _digest(b"")


def _words_digest(words: Sequence[str]) -> str:
    return _digest(json.dumps(list(words)).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
