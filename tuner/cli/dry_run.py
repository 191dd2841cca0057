"""``tune --dry-run``: the first launches as lines for a shell, without running them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tuner.cli import console
from tuner.knobs import core_budget, setting_text, space
from tuner.knobs.requirements import requirements_of
from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.launch.secrets import HIDDEN, Redactor, redact_spec
from tuner.model import BASELINE, Launch, Setting, StudySpec, wording
from tuner.results.exporters.json import dumps, spec_json

#: Stands for the folder of the study's launches, below the current one.
OUTPUTS = Path("OUTPUTS")


def print_launches(spec: StudySpec, *, as_json: bool) -> None:
    """Print what the guesses and the baseline would run, in the order of a study."""
    environment = launcher_for(spec.launcher.kind).environment(spec.launcher)
    launches = [
        (
            setting,
            render.launch(spec, setting, OUTPUTS / str(number), environ=os.environ, cwd=Path.cwd()),
        )
        for number, setting in enumerate((*space.guesses(spec), BASELINE), start=1)
    ]
    redactor = Redactor.of(os.environ, *(launch.argv for _, launch in launches))
    spec = redact_spec(spec, os.environ)
    launches = [
        (setting, replace(launch, argv=redactor.words(launch.argv))) for setting, launch in launches
    ]
    if as_json:
        rows = [
            {"setting": setting, "environment": environment, "argv": launch.argv}
            for setting, launch in launches
        ]
        document = {"schema": "tuner.dry-run/1", "study": spec_json(spec), "launches": rows}
        sys.stdout.write(dumps(document))
        return
    for line in script(spec, launches, environment):
        if console.is_live(sys.stdout):
            console.out(line)
        else:  # a script, whose words must arrive as they are
            sys.stdout.write(line + "\n")


def script(
    spec: StudySpec, launches: list[tuple[Setting, Launch]], environment: dict[str, str]
) -> Iterator[str]:
    """Yield lines to be pasted: what is no command of a launch is in one-line comments."""
    variables = ["env", *(f"{name}={value}" for name, value in sorted(environment.items()))]
    for setting, launch in launches:
        yield wording.one_line(f"# {setting_text.assigned(setting, spec.knobs)}", most=None)
        yield shlex.join(("mkdir", "-p", str(launch.out_dir)))
        yield shlex.join((*(variables if environment else ()), *launch.argv))
    size = space.size(spec.knobs, requirements_of(spec))
    most = wording.count(min(spec.trials, size), "setting")
    notes = [f"including the search: at most {most} of {size}", core_budget.left_out(spec)]
    if any(HIDDEN in word for _, launch in launches for word in launch.argv):
        notes.append(f"{HIDDEN} stands for a secret of your command, which is not printed")
    if spec.require:
        notes.append(f"only settings with {' and '.join(spec.require)} (--require)")
    notes += [f"not tuned: {name}: {why}" for name, why in spec.left_out]
    for note in filter(None, notes):
        yield wording.one_line(f"# {note}", most=None)
