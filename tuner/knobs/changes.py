"""Which values of a knob change nothing of the user's defaults. Pure.

A setting may leave a knob out; the launch then treats it as the baseline does. Some values come to
the same: the placeholder's own default, what the launcher does by itself, no variable if none is
set.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.model import Env, StudySpec, Value


def unchanged(spec: StudySpec) -> Mapping[str, Value]:
    """Per knob the value that comes to the same as to leave it out, if that is known."""
    environ, values = dict(spec.environment), dict[str, Value]()
    for knob in spec.knobs:
        is_set = isinstance(knob.route, Env) and any(name in environ for name in knob.route.names)
        value = knob.default
        if value is None and not is_set:
            value = knob.neutral
        if value is not None:
            values[knob.name] = value
    return values
