"""``args``: the part of the setting that reaches the program by argument, on one line."""

from __future__ import annotations

import shlex

from tuner.launch import render
from tuner.launch.secrets import HIDDEN
from tuner.model import Env, Flag
from tuner.results.exporters import Export, header
from tuner.results.study_view import StudyView


def export(data: StudyView) -> Export:
    """The arguments, each quoted for a POSIX shell."""
    arguments = render.arguments(data.spec, data.best_setting)
    hidden = any(HIDDEN in word for word in arguments)
    secret = (f"{HIDDEN} stands for a secret, which is not stored",) if hidden else ()
    missing = header.not_carried(data, "arguments", lambda route: isinstance(route, Flag))
    said = (
        f"{line}: it goes by {'environment' if isinstance(route, Env) else 'launcher option'}"
        for line, route in missing
    )
    return Export(text=shlex.join(arguments) + "\n", warnings=(*said, *secret))
