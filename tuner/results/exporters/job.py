"""The parts of a whole job with the best setting: what each script or manifest is made of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.launch.secrets import HIDDEN
from tuner.model import LauncherInfo, Layout, wording
from tuner.model.wording import one_line
from tuner.results import claims
from tuner.results.study_view import StudyView

#: Stands for the output folder until the words are quoted: no argv can hold a NUL.
OUT = "\0out\0"
#: Stands for the hosts in the same way.
HOSTS = "\0hosts\0"


def header(data: StudyView) -> list[str]:
    """Say which study, machine and measurement an export stands for, one fact a line."""
    spec, machine = data.best_spec, data.spec.machine
    cores, ranks = wording.count(machine.cores, "core"), wording.ranks(spec.layout)
    lines = [
        f"study:    {spec.name} ({ranks}, {wording.launcher(spec.launcher)})",
        f"machine:  {machine.hostname}, {cores}, {machine.cpu_model}",
        f"setting:  {data.handed_over}",
        f"measured: {claims.comparison(data.result)}",
    ]
    return [one_line(line, most=None) for line in lines]


def comment(data: StudyView) -> str:
    """Write the comments at the top of a file: what it runs, and which measurement chose it."""
    choice = "with the fastest setting that `tune` found"
    if data.keeps_defaults:
        is_final = data.result.conclusion is not None
        text = "found nothing faster" if is_final else "has found nothing faster yet, unconfirmed"
        choice = f"with your defaults: `tune` {text}"
    title = f"The whole job {choice}. Needs no tune to run."
    return "".join(f"# {line}\n" for line in (title, *header(data)))


def omissions(warnings: Iterable[str]) -> str:
    """Write a comment for each warning that says what the file cannot carry."""
    return "".join(f"# not in this file: {one_line(warning, most=None)}\n" for warning in warnings)


def job_parts(
    data: StudyView, info: LauncherInfo, layout: Layout
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the words of the launcher, of ``env`` with the setting (or none), of the program."""
    spec, launcher = data.spec, launcher_for(info.kind)
    template = spec.job or spec.command
    job = render.program_argv(spec, data.best_setting, out=OUT, template=template)
    if "=" in job[0] or job[0].startswith("-"):
        # env would take such a program for one more assignment, or for an option
        job = ("sh", "-c", 'exec "$@"', "sh", *job)
    unset, assignments = render.assignments(spec, data.best_setting, template)
    if not layout.is_local:  # ssh carries no variable to other hosts
        assignments |= launcher.environment(info)
    changes = [word for name in unset for word in ("-u", name)]
    changes += [f"{name}={value}" for name, value in assignments.items()]
    prefix = ("env", *changes) if changes else ()
    options = render.launcher_options(spec, data.best_setting)
    argv = launcher.argv(info, layout, options, (*prefix, *job))
    return argv[: len(argv) - len(prefix) - len(job)], prefix, job


class Secrets:
    """Quotes the words of the command, with variables for the secrets, which were not stored.

    ``literal`` quotes a text; ``reference`` is how the format writes the variable ``{}``.
    """

    def __init__(
        self, literal: Callable[[str], str] = shlex.quote, reference: str = '"${}"'
    ) -> None:
        self._literal, self._reference = literal, reference
        #: Where each secret stands in the command, by the variable that holds it.
        self.purposes: dict[str, str] = {}
        self._last_word = ""

    def quote(self, word: str) -> str:
        """Quote a word; the output folder and the variables of secrets take their places in it."""
        if word == HOSTS:
            return '"$HOSTS"'
        quoted = self._reference.format("OUT").join(map(self._quote_around, word.split(OUT)))
        self._last_word = word
        return quoted or self._literal("")

    def checks(self) -> str:
        """Return the lines that end the script if a secret is missing."""
        return "".join(
            f': "${{{name}:?set it to the secret {purpose}: tune stores none}}"\n'
            for name, purpose in self.purposes.items()
        )

    def _quote_around(self, part: str) -> str:
        first, *rest = part.split(HIDDEN)
        text = self._literal(first) if first else ""
        for before, after in zip([first, *rest], rest, strict=False):
            # The words before the secret, in letters that mean themselves between double quotes.
            follows = re.sub(r"[^A-Za-z0-9_=:/.@-]", "_", (before or self._last_word)[-40:])
            name = f"TUNE_SECRET_{len(self.purposes) + 1}"
            self.purposes[name] = f"after {follows}" if follows else "in the command"
            text += self._reference.format(name) + (self._literal(after) if after else "")
        return text
