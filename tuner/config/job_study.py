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
from tuner.launch.command import OUT, options_of_placeholders, placeholders
from tuner.model import StudySpec
from tuner.model.errors import UsageError
from tuner.store.identity import identity

#: Keys that the typed line sets; those of the study file are dropped.
_LAUNCH_KEYS = (
    *("mpi_procs", "ppn", "hosts", "hostfile", "hosts_from"),
    *("mpirun", "launcher", "mpirun_args"),
)

#: The share of the time for tuning that the search may take: warm-up and proof come on top.
SEARCH_SHARE = 0.25


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
    option; else the command of the study ``file``, else the job's own program. An option of the job
    is tuned if the file has that knob, without a file if its name tells what it is; its value in
    the line is that of the baseline. Without a file a job is timed by its log if it writes
    Chainer's.
    """
    document = dict(file or {})
    tables = document.get("knobs", {}) if file else {"omp_threads": {}, "opencv_threads": {}}
    short_command = tuple(WORDS.read(document["command"])) if "command" in document else ()
    in_file = {name: [option] for name, option in options_of_placeholders(short_command).items()}
    options = {**first_study.options_in(job.program), **in_file}
    folder_options = options.pop(OUT, [])
    words = [*map(program.literal, job.program)]
    in_line = {
        name: names
        for name, names in options.items()
        if (not file or name in {*tables, *in_file}) and first_study.has_option(words, names)
    }
    job_words, baselines = first_study.with_placeholders(words, in_line)
    if short or not short_command:
        has_program = short and not short[0].startswith("-")
        words = [*map(program.literal, short)] if has_program else [*words, *short]
        folders = {OUT: folder_options} if first_study.has_option(words, folder_options) else {}
        short_command, _ = first_study.with_placeholders(words, {**in_line, **folders})
    scripts = [program.script_of(command) for command in (short_command, job_words)]
    if None not in scripts and Path(str(scripts[0])).name != Path(str(scripts[1])).name:
        raise UsageError(
            f"the short run is one of {scripts[0]}, and the job runs {scripts[1]}",
            "say with --short how a short run of the job's own program is started",
        )
    if not file:
        script = Path(cwd, scripts[1] or os.devnull)
        has_log = OUT in placeholders(short_command) and script.is_file()
        has_log = has_log and b"LogReport" in script.read_bytes()
        document["objective"] = {"kind": "logreport" if has_log else "wall"}
    knobs = {name: {**tables.get(name, {}), **table} for name, table in baselines.items()}
    document["knobs"] = {**tables, **knobs}
    document = {key: value for key, value in document.items() if key not in _LAUNCH_KEYS}
    document |= {**job.keys, "command": list(short_command), "job": list(job_words)}
    return build_spec(
        file=document,
        source="the typed job",
        options={"budget_s": str(SEARCH_SHARE * limit_s)},
        environ=environ,
        cwd=cwd,
    )


def with_own_name(spec: StudySpec) -> StudySpec:
    """Return the study with a name that no other study has: a digest of all that it measures."""
    parts = json.dumps(identity(spec), sort_keys=True, default=str)
    return replace(spec, name=f"{spec.name}-{sha256(parts.encode()).hexdigest()[:8]}")
