"""A job as its user types it: what it is, and its line with a setting.

A job waits for this, so it imports little.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.config import first_study, program
from tuner.config.typed_launch import typed_launch
from tuner.launch.command import BARE
from tuner.launch.launch_line import LAUNCHERS, TORCHRUN, launch_line, options_of
from tuner.launch.secrets import recorded_environment
from tuner.model import JobFacts, LineChange, Machine
from tuner.model.errors import UsageError

#: Interpreters and wrappers: words after them name the program that is meant.
_STARTER = re.compile(
    r"(python|pypy)[\d.]*|(ba|da|k|z)?sh|env|nice|numactl|taskset|time|timeout|stdbuf|nohup"
    r"|julia|Rscript|perl|ruby|java|node|uv|conda|mamba|poetry|apptainer|singularity|docker|podman"
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
    if line.before:
        before = shlex.join(line.before)
        raise UsageError(f"`{before}` stands before {line.name}", f"{before} tune exec …")
    keys, ranks_program = typed_launch(line, environ)
    syntax = LAUNCHERS[line.name]
    options, rest = options_of(syntax, line.arguments)
    launcher_options = line.arguments[: len(line.arguments) - len(rest)]
    if syntax is TORCHRUN:  # it starts Python itself, unless it is told that a program follows
        kept = [o for o in options if o.name not in ("m", "module", "no-python")]
        launcher_options = (*(word for option in kept for word in option.words), "--no-python")
    return TypedJob(words, line.launcher, launcher_options, ranks_program, keys)


def facts(
    job: TypedJob, machine: Machine, environ: Mapping[str, str], folder: Path, input_file: str = ""
) -> JobFacts:
    """Return what the fastest setting of a job depends on that is started in ``folder``.

    ``input_file`` is the path of its standard input if that is a file.
    """
    launcher = ""
    if job.launcher:
        file, options = _path(job.launcher[0], environ), job.keys.get("mpirun_args", ())
        launcher = f"{Path(job.launcher[0]).name} {_digest(_content(file))} {_digest(options)}"
    hosts = str(job.keys.get("hosts", "")).count(",") + 1
    if "hosts" not in job.keys:
        hosts = int(environ.get("SLURM_JOB_NUM_NODES", "1"))
    ranks = job.keys.get("mpi_procs") or job.keys.get("ppn", 0) * hosts
    cpus = f"{machine.logical_cpus} CPUs on {machine.physical_cores} cores"
    limits = f"{machine.affinity_cpus} allowed, quota {machine.quota_cpus}"
    nodes = f"{machine.numa_nodes} NUMA nodes"
    name, digest, interpreter, arguments = _program(job.program, environ, folder)
    return JobFacts(
        program=name,
        program_digest=digest,
        interpreter=interpreter,
        arguments_digest=_digest([*arguments, input_file]),
        environment_digest=_digest(sorted(recorded_environment(environ).items())),
        launcher=launcher,
        ranks=ranks or int(environ.get("SLURM_NTASKS", "0")),
        hosts=hosts,
        host_type=", ".join((machine.cpu_model, cpus, limits, nodes, *machine.gpus)),
    )


def _program(
    words: Sequence[str], environ: Mapping[str, str], folder: Path
) -> tuple[str, str, str, Sequence[str]]:
    """Return the name of a program, a digest of its content, its interpreter, its arguments.

    The digest of what cannot be read is that of its name.
    """
    option, name = program.python_target(words)
    first = _path(words[0], environ)
    if program.SHELL.fullmatch(Path(words[0]).name):
        name = "".join(words[1:2])
    if name and not name.startswith("-"):
        path = name if option else str((folder / name).resolve())
        digest = _digest(program.fingerprints(words, folder) or path)
        return path, digest, str(first), words[words.index(name) + 1 :]
    content = _content(first)
    digest = _digest(content or str(first))
    if _STARTER.fullmatch(first.name) or content.startswith(b"#!"):
        # Which of its words names the program that is meant is not known: all of them do.
        return f"{first} {_digest(words)}", _digest([digest, *words]), "", ()
    return str(first), digest, "", words[1:]


def _path(word: str, environ: Mapping[str, str]) -> Path:
    on_path = None if "/" in word else shutil.which(word, path=environ.get("PATH"))
    return Path(on_path or word).resolve()


def _content(path: Path) -> bytes:
    """Return a file's first part and its length, in bytes; nothing if it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(_READ_BYTES) + b" %d" % path.stat().st_size
    return b""


def _digest(value: Any) -> str:
    """Return a digest of bytes, or of what JSON can say."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return hashlib.sha256(data).hexdigest()[:16]
