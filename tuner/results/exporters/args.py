"""``args``: the part of the setting that reaches the program by argument, on one line."""

from __future__ import annotations

import shlex

from tuner.launch import render
from tuner.launch.secrets import HIDDEN
from tuner.model import Env, LauncherOption
from tuner.results.exporters import Export
from tuner.results.exporters.header import one_line
from tuner.results.study_view import StudyView


def export(data: StudyView) -> Export:
    """The arguments, each quoted for a POSIX shell."""
    arguments = render.arguments(data.spec, data.best_setting)
    hidden = any(HIDDEN in word for word in arguments)
    secret = (f"{HIDDEN} stands for a secret, which is not stored",) if hidden else ()
    return Export(text=shlex.join(arguments) + "\n", warnings=(*_missing(data), *secret))


def _missing(data: StudyView) -> tuple[str, ...]:
    values = data.best_setting.as_dict()
    return tuple(
        f"arguments cannot carry {one_line(f'{knob.name}={values[knob.name]}')}:"
        f" it goes by {'environment' if isinstance(knob.route, Env) else 'launcher option'}"
        for knob in data.spec.knobs
        if knob.name in values and isinstance(knob.route, Env | LauncherOption)
    )
