"""The study that tunes a job out of the line that starts it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from tuner.config import first_study, program
from tuner.config.options import WORDS
from tuner.config.spec import build_spec
from tuner.config.study_file import Document
from tuner.config.typed_job import TypedJob
from tuner.launch.command import OUT, options_of_placeholders
from tuner.model import StudySpec
from tuner.model.errors import UsageError
from tuner.store.identity import identity

#: The keys of a study file that a typed launch line says.
_LAUNCH_KEYS = [
    "mpi_procs",
    "ppn",
    "hosts",
    "hostfile",
    "hosts_from",
    "mpirun",
    "launcher",
    "mpirun_args",
]

#: The share of the time for tuning that the search may take: warm-up and proof come on top.
SEARCH_SHARE = 0.4


def study_of_job(
    job: TypedJob,
    *,
    file: Document | None,
    short: Sequence[str],
    limit_s: float,
    environ: Mapping[str, str],
    cwd: Path,
) -> StudySpec:
    """Return the study that tunes a typed job; ``UsageError`` if there can be none.

    Launches run the words of ``short``, which follow the job's own program if they begin with an
    option; else the command of the study ``file``, else the job's own program. An option to which
    the file's command gives a placeholder has it in the job, too. Without a study file a job is
    timed by its log if it writes Chainer's.
    """
    document = dict(file or {})
    measured = tuple(WORDS.read(document["command"])) if "command" in document else ()
    in_file = {name: [option] for name, option in options_of_placeholders(measured).items()}
    options = {**first_study.options_in(job.program), **in_file}
    in_job = {name: names for name, names in options.items() if name != OUT}
    job_words, tables = first_study.with_placeholders([*map(program.literal, job.program)], in_job)
    if short or not measured:
        has_program = short and not short[0].startswith("-")
        words = [*map(program.literal, short if has_program else (*job.program, *short))]
        measured, _ = first_study.with_placeholders(words, options)
    scripts = [program.script_of(words) for words in (measured, job_words)]
    if None not in scripts and Path(str(scripts[0])).name != Path(str(scripts[1])).name:
        raise UsageError(
            f"the short run is one of {scripts[0]}, and the job runs {scripts[1]}",
            "say with --short how a short run of the job's own program is started",
        )
    if not file:
        source = Path(program.script_of(job.program) or os.devnull).read_text("utf-8", "replace")
        has_log = OUT in options and "LogReport" in source
        document["objective"] = {"kind": "logreport" if has_log else "wall"}
        document["knobs"] = {"omp_threads": {}, "opencv_threads": {}, **tables}
    for key in _LAUNCH_KEYS:
        document.pop(key, None)
    document |= {**job.keys, "command": list(measured), "job": list(job_words)}
    spec = build_spec(
        file=document,
        source="the typed job",
        options={"budget_s": str(SEARCH_SHARE * limit_s)},
        environ=environ,
        cwd=cwd,
    )
    parts = json.dumps(identity(spec), sort_keys=True, default=str)
    return replace(spec, name=f"{spec.name}-{sha256(parts.encode()).hexdigest()[:8]}")
