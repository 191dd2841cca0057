"""A study's result for people: what was found, what took effect, what to type next."""

from __future__ import annotations

import shlex

from tuner.cli import console
from tuner.knobs import setting_text
from tuner.model import JsonDict, figures, price, wording
from tuner.results import claims
from tuner.results.report import facts, words
from tuner.results.study_view import StudyView, contributions, settings_table
from tuner.store.urls import display_url


def print_result(data: StudyView, *, summary: bool, held_back: str = "") -> None:
    """What was found: the end of ``tune`` (a ``summary``) and the top of ``tune show``.

    Args:
        data: The study.
        summary: Whether this is all that is shown of it.
        held_back: What holds the best setting back, if that is known.
    """
    result, spec = data.result, data.spec
    machine = wording.ranks(spec.layout)
    if spec.layout.is_local:
        machine += f" on {spec.machine.hostname}"
    console.out(
        f"Study {spec.name}: {result.state.value},"
        f" {claims.measured(result)} in {claims.launch_count(result)}"
        f" ({machine}, {wording.launcher(spec.launcher)})",
        bold=True,
    )
    if result.reason:
        console.out(f"  ended:     {result.reason}")
    if result.best:
        console.out(f"  best:      {facts.handed_over(data)}", bold=True)
    below_best = []
    if result.best_keeping is not None:
        name = setting_text.assigned(result.best_keeping.setting, spec.knobs)
        took = figures.typical(spec.objective, result.best_keeping)
        below_best.append(f"best that keeps the numerics: {name}, {took}")
    if not _is_said(data):
        below_best.append(claims.comparison(result))
    paid = claims.break_even(result)
    below_best += [facts.final_losses(data), *price.lines(spec, result)]
    below_best += ["" if paid is None else str(paid), held_back]
    for text in filter(None, below_best):  # wrapped, but never between a number and its unit
        console.out(wording.unparted(text), indent=" " * 13)
    for title, lines in words.blocks(data):
        _print_block(title, lines)
    if summary:
        failed = facts.kinds(facts.failures(data))
        _print_block(f"Failed {failed} (`tune show` has the logs)", facts.failure_lines(data))


def _is_said(data: StudyView) -> bool:
    """True if there is nothing but a failure to tell, and the reason of the end tells it."""
    result = data.result
    failed = result.baseline.failure if result.baseline else None
    return (
        bool(result.reason)
        and result.best is None
        and (failed is None or failed.reason in result.reason)
    )


def print_next(data: StudyView, storage: str | None) -> None:
    """The commands to type next: to be copied as they are, but for a hidden password.

    Args:
        data: The study.
        storage: The database as it was typed; ``None`` if it goes without saying.
    """
    place = display_url(storage) if storage and "://" in storage else storage or ""
    more = f" --storage {shlex.quote(place)}" if place else ""
    rows = words.use(data, place) or [
        (
            f"tune show {shlex.quote(data.spec.name)}{more}",
            "every setting, what each knob contributes, failures",
        )
    ]
    rows += [(f"tune dashboard{more}", "the same in the browser")]
    width = max(len(line) for line, _ in rows)
    _print_block("Next", [f"{line.ljust(width)}   {what}" for line, what in rows], wrap=False)


def print_settings(data: StudyView) -> None:
    """A table of every setting, the fastest first."""
    table = settings_table(data, reasons=False)
    console.out()
    console.out("Settings", bold=True)
    right = set(range(len(table.head) - 1))
    console.print_table(list(table.head), [list(row) for row in table.rows], right=right)
    if launches := claims.rests_on(data):
        console.out(f"  measured: runs in the whole study; the verdict rests on {launches}")
    if any(measurement.stopped for measurement in data.measurements):
        console.out("  ~ projected from the log, > at least: stopped before its end")


def print_contributions(data: StudyView) -> None:
    """What each knob alone contributes to the best setting."""
    rows = [
        (
            setting_text.shortened(
                contribution.knob
                if contribution.value is None
                else f"{contribution.knob}={contribution.value}"
            ),
            claims.contribution(contribution, data.spec.precision),
        )
        for contribution in contributions(data)
    ]
    width = max((len(name) for name, _ in rows), default=0)
    _print_block(
        "What each knob alone contributes (95 % interval)",
        [f"{name.ljust(width)}  {said}" for name, said in rows],
    )


def print_failures(data: StudyView) -> None:
    """Each failed launch with its reason and where its log lies."""
    lines, rows = [], facts.failures(data)
    for failed in rows:
        lines.append(f"{_numbered(failed)} ({failed['name']}): {failed['failure']}")
        lines.append(f"    {failed['folder']}/output.log")
    _print_block(f"Failed {facts.kinds(rows)}", lines)


def print_excluded(data: StudyView) -> None:
    """Each launch that was excluded, with the reason."""
    rows = facts.excluded(data)
    lines = [f"{_numbered(row)} ({row['name']}): {row['excluded']}" for row in rows]
    _print_block(f"{facts.kinds(rows).capitalize()} excluded", lines)


def _numbered(row: JsonDict) -> str:
    """``launch 3``, or ``window 3``: both have one row of numbers."""
    return f"{'launch' if row['job'] is None else 'window'} {row['number']}"


def _print_block(title: str, lines: list[str], *, wrap: bool = True) -> None:
    """Print lines under a title; commands are not wrapped, as they are to be copied."""
    if lines:
        console.out()
        console.out(title, bold=True)
        for line in lines:
            if wrap:
                console.out(line, indent="  ")
            else:
                console.out(f"  {line}")
