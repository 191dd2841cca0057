"""The comment lines in front of an export: which study, machine and time it stands for."""

from __future__ import annotations

from collections.abc import Callable

from tuner.knobs import setting_text
from tuner.model import Route, wording
from tuner.results import claims
from tuner.results.study_view import StudyView


def lines(data: StudyView) -> list[str]:
    """The facts about an export, one a line, without comment marks."""
    spec, machine = data.spec, data.spec.machine
    cores = wording.count(machine.cores, "core")
    return [
        f"study:    {one_line(spec.name)} ({wording.count(spec.layout.ranks, 'rank')},"
        f" {wording.launcher(spec.launcher)})",
        f"machine:  {one_line(machine.hostname)}, {cores}, {one_line(machine.cpu_model)}",
        f"setting:  {one_line(setting_text.assigned(data.best_setting, spec.knobs))}",
        f"measured: {one_line(claims.comparison(data.result))}",
    ]


def comment(data: StudyView) -> str:
    """The same behind ``#``: safe in a shell script and in an environment file."""
    return "".join(f"# {line}\n" for line in lines(data))


def one_line(text: str) -> str:
    """Text that cannot end a comment: control characters, newlines too, become ``?``."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def not_carried(
    data: StudyView, form: str, carries: Callable[[Route], bool]
) -> tuple[tuple[str, Route], ...]:
    """A line for each part of the setting that a form cannot carry, with its route.

    Args:
        data: The study.
        form: What the form is called: ``an environment``.
        carries: Whether it carries what takes a route.
    """
    values = data.best_setting.as_dict()
    return tuple(
        (f"{form} cannot carry {one_line(f'{knob.name}={values[knob.name]}')}", knob.route)
        for knob in data.spec.knobs
        if knob.name in values and not carries(knob.route)
    )
