"""``env``: the environment of the setting, for ``set -a; . FILE`` and ``docker --env-file``.

The two read a line differently: a shell strips quotes and expands ``$``, docker takes all of
it as it stands. So only values that need no quoting are written; any other is refused.
"""

from __future__ import annotations

import re

from tuner.launch import render
from tuner.model import Env
from tuner.model.errors import UsageError
from tuner.results.exporters import Export, header
from tuner.results.study_view import StudyView

#: Letters that mean themselves to a POSIX shell in an assignment and to docker. ``~`` is not
#: among them (expanded at the start and after ``:``), nor is anything outside ASCII.
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]*")


def export(data: StudyView) -> Export:
    """The assignments, one a line; what an environment cannot carry is said in comments.

    Raises:
        UsageError: A value that is not the same to a shell and to docker.
    """
    unset, assignments = render.assignments(data.spec, data.best_setting)
    for name, value in assignments.items():
        if not _PLAIN.fullmatch(value):
            raise UsageError(
                f"{name}={value!r} cannot be written so that a shell and docker read the same",
                "use --format sh, or json",
            )
    missing = header.not_carried(data, "an environment", lambda route: isinstance(route, Env))
    unsettable = (f"an environment file cannot unset {name}" for name in unset)
    warnings = (*unsettable, *(line for line, _ in missing))
    text = header.comment(data)
    text += "# use: set -a; . ./FILE; set +a    or: docker run --env-file FILE IMAGE\n"
    text += "".join(f"# not in this file: {warning}\n" for warning in warnings)
    text += "".join(f"{name}={value}\n" for name, value in assignments.items())
    return Export(text=text, warnings=warnings)
