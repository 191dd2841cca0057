"""``sh``: a POSIX script that runs the whole job with the best setting, without this tool.

Every word is quoted, so that nothing in a value is ever interpreted. ``env`` stands where the
trials had the wrapper script; both only change the environment of the ranks. A secret of the
command was never stored: the script takes it from the environment, and says so.
"""

from __future__ import annotations

import re
import shlex

from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.launch.secrets import HIDDEN
from tuner.results.exporters import Export, header
from tuner.results.study_view import StudyView

#: Stands for the output folder until the words are quoted: no argv can hold a NUL.
_OUT = "\0out\0"


def export(data: StudyView) -> Export:
    """The script; its first argument, or ``OUT``, is the folder for the job's output."""
    spec = data.spec
    launcher = launcher_for(spec.launcher.kind)
    options = render.launcher_options(spec, data.best_setting)
    changes, job = _changes(data), _job(data)
    argv = launcher.argv(spec.launcher, spec.layout.ranks, options, (*changes, *job))
    parts = (argv[: len(argv) - len(changes) - len(job)], changes, job)
    variables = "".join(
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted(launcher.environment(spec.launcher).items())
    )
    secrets = _Secrets()
    command = " \\\n  ".join(" ".join(map(secrets.quote, part)) for part in parts if part)
    writes = any(_OUT in word for word in job)
    use, prepare = "sh FILE", f"cd -- {shlex.quote(spec.folder)}\n" if spec.folder else ""
    if writes:
        use = "sh FILE [OUTPUT_FOLDER]"
        prepare = (
            f"OUT=${{1:-${{OUT:-{shlex.quote(_default_out(spec.name))}}}}}\n"
            f'mkdir -p -- "$OUT"\n{_enter(spec.folder)}'
        )
    text = f"""#!/bin/sh
# The whole job {_with(data)}. Needs no tune to run.
{header.comment(data)}# use:      {use}
set -eu
{secrets.asked()}
{prepare}{variables}exec {command}
"""
    return Export(text=text, executable=True)


def _with(data: StudyView) -> str:
    if data.keeps_defaults:
        proven = data.result.conclusion is not None
        found = "found nothing faster" if proven else "has found nothing faster yet, unconfirmed"
        return f"with your defaults: `tune` {found}"
    return "with the fastest setting that `tune` found"


def _enter(folder: str) -> str:
    """Go where the relative paths of the command lead somewhere, the output folder kept."""
    if not folder:
        return ""
    return f"case $OUT in /*) ;; *) OUT=$PWD/$OUT ;; esac\ncd -- {shlex.quote(folder)}\n"


def _changes(data: StudyView) -> tuple[str, ...]:
    """``env`` with what the setting changes; nothing if it changes no variable."""
    template = data.spec.job or data.spec.command
    unset, assignments = render.assignments(data.spec, data.best_setting, template)
    words = [word for name in unset for word in ("-u", name)]
    words += [f"{name}={value}" for name, value in assignments.items()]
    return ("env", *words) if words else ()


def _job(data: StudyView) -> tuple[str, ...]:
    """The whole job of one rank, the output folder still to be put in."""
    spec = data.spec
    template = spec.job or spec.command
    job = render.program_argv(spec, data.best_setting, out=_OUT, template=template)
    if "=" in job[0] or job[0].startswith("-"):
        # env would take such a program for one more assignment, or for an option
        return ("sh", "-c", 'exec "$@"', "sh", *job)
    return job


class _Secrets:
    """Quotes the words of the command, and remembers which of them were not stored."""

    def __init__(self) -> None:
        self._wanted: list[str] = []  # what each is for, as far as it may be said
        self._before = ""

    def quote(self, word: str) -> str:
        """Quote a word; ``"$OUT"`` and the variables of secrets take their places in it."""
        quoted = '"$OUT"'.join(map(self._quote_around, word.split(_OUT)))
        self._before = word
        return quoted or "''"

    def asked(self) -> str:
        """The lines that end the script if a secret is missing."""
        return "".join(
            f': "${{{_variable(number)}:?set it to the secret {purpose}: tune stores none}}"\n'
            for number, purpose in enumerate(self._wanted, start=1)
        )

    def _quote_around(self, part: str) -> str:
        first, *others = part.split(HIDDEN)
        text = shlex.quote(first) if first else ""
        for before, after in zip([first, *others], others, strict=False):
            self._wanted.append(_purpose(before or self._before))
            text += f'"${_variable(len(self._wanted))}"' + (shlex.quote(after) if after else "")
        return text


def _variable(number: int) -> str:
    return f"TUNE_SECRET_{number}"


def _purpose(before: str) -> str:
    """``after --password``: letters that mean themselves between double quotes."""
    safe = re.sub(r"[^A-Za-z0-9_=:/.@-]", "_", before[-40:])
    return f"after {safe}" if safe else "in the command"


def _default_out(study: str) -> str:
    """A folder below the current one, named for the study; never one that looks like an option."""
    safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in study)
    return f"./{safe}-out"
