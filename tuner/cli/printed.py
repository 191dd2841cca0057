"""Prints a study's result for people: the best setting, what took effect, what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tuner.cli import console
from tuner.knobs import setting_text
from tuner.model import LaunchRecord, figures, price, wording
from tuner.results import claims, words
from tuner.results.study_view import StudyView, ranks_and_threads, settings_table
from tuner.store.urls import display_url


def print_result(data: StudyView, *, summary: bool, held_back: str = "") -> None:
    """Print the result: the end of ``tune`` (a ``summary``) and the top of ``tune show``.

    ``held_back`` says what holds the best setting back, if that is known.
    """
    result, spec = data.result, data.spec
    machine = words.ranks(spec)
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
        console.out(f"  best:      {data.handed_over}", bold=True)
    below_best = []
    if result.best_keeping is not None:
        name = setting_text.assigned(result.best_keeping.setting, spec.knobs)
        time = figures.typical(spec.objective, result.best_keeping)
        below_best.append(f"best that keeps the numerics: {name}, {time}")
    failure = result.baseline.failure if result.baseline else None
    is_in_reason = failure is None or failure.reason in result.reason
    if result.best is not None or not result.reason or not is_in_reason:
        below_best.append(claims.comparison(result))
    below_best += [
        words.final_losses(data),
        *price.lines(spec, result),
        claims.break_even(result),
        held_back,
    ]
    for text in filter(None, below_best):  # wrapped, but never between a number and its unit
        console.out(wording.unparted(text), indent=" " * 13)  # below the best setting
    for title, lines in words.blocks(data):
        _print_block(title, lines)
    if summary:
        _print_block("Failed launches (`tune show` has the logs)", words.failure_lines(data))


def print_next(data: StudyView, storage: str | None) -> None:
    """Print the commands to type next; ``storage`` is the database as it was typed, if it was."""
    place = display_url(storage) if storage and "://" in storage else storage or ""
    option = f" --storage {shlex.quote(place)}" if place else ""
    rows = [*words.use(data, place), (f"tune dashboard{option}", "the same in the browser")]
    _print_block("Next", _columns(rows, gap=3), wrap=False)


def print_settings(data: StudyView) -> None:
    """Print ranks against threads, if tuned, every setting, and what each knob contributes."""
    if (rank_map := ranks_and_threads(data)) is not None:
        table, _ = rank_map
        console.out()
        console.out(
            "Ranks against threads: the fastest setting with each pair, * the best", bold=True
        )
        console.print_table(table.head, table.rows, right=range(len(table.head)))
    table = settings_table(data)
    console.out()
    console.out("Settings", bold=True)
    console.print_table(table.head, table.rows, right=range(len(table.head) - 1))
    if any(measurement.stopped for measurement in data.measurements):
        console.out("  ~ projected from the log, > at least: stopped before its end")
    title = "What each knob alone contributes (95 % interval)"
    _print_block(title, _columns(words.contribution_rows(data), gap=2))


def print_failures(data: StudyView) -> None:
    """Print each launch that failed, with its reason and its log, and each excluded one."""
    lines = []
    for record in data.failures:
        why = figures.came_to(data.spec.objective, record.outcome)
        lines += [_line(data, record, why), f"    {record.folder}/output.log"]
    _print_block("Failed launches", lines)
    excluded = ((r, r.outcome.exclusion) for r in data.excluded)
    _print_block("Launches excluded", [_line(data, r, why.text) for r, why in excluded if why])


def _line(data: StudyView, record: LaunchRecord, why: str) -> str:
    name = setting_text.assigned(record.setting, data.spec.knobs)
    return f"launch {record.number} ({name}): {why}"


def _columns(rows: Sequence[tuple[str, str]], gap: int) -> list[str]:
    """Return lines of two columns."""
    width = max((len(name) for name, _ in rows), default=0) + gap
    return [f"{name.ljust(width)}{text}" for name, text in rows]


def _print_block(title: str, lines: Sequence[str], *, wrap: bool = True) -> None:
    """Print lines under a title; commands are not wrapped, as they are to be copied."""
    if lines:
        console.out()
        console.out(title, bold=True)
        for line in lines:
            if wrap:
                console.out(line, indent="  ")
            else:
                console.out(f"  {line}")
