"""The table of what was found: as text for the terminal, as Markdown for the docs (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.model import ObjectiveSpec, Stopped

HEADERS = (
    "program",
    "ranks",
    "settings, launches",
    "baseline",
    "best",
    "times faster",
    "best setting",
    "`tune explain`: baseline → best",
)


#: The cells of one program, in the order of the headers.
Row = tuple[str, ...]


def row(title: str, document: dict[str, Any], explained: dict[str, Any]) -> Row:
    """Return the line of a study by its JSON export and the JSON of ``tune explain``."""
    study, result = document["study"], document["result"]
    objective = ObjectiveSpec(**study["objective"])
    return (
        title,
        str(study["layout"]["ranks"]),
        f"{result['trials']}, {result['launches']}",
        _figure(result["baseline"], objective),
        _figure(result["best"], objective) if result["verdict"] == "faster" else "-",
        _faster(result),
        _setting(result["export"]),
        _held(explained),
    )


def _figure(measurement: dict[str, Any] | None, objective: ObjectiveSpec) -> str:
    """The median in the unit that was asked for, or why there is none."""
    if measurement is None:
        return "not measured"
    if measurement["figure"] is not None:
        return f"{measurement['figure']:.3g} {objective.unit or 's'}"
    if measurement["stopped"] is None:
        return "failed"
    stopped = Stopped(**measurement["stopped"])
    figure = f"~{objective.figure(stopped.projection_s):.3g} {objective.unit or 's'}"
    return figure if stopped.is_forecast else "stopped"


def _faster(result: dict[str, Any]) -> str:
    """The ratio with its interval, or that nothing is proven."""
    finding = result["finding"]
    if finding is None:
        return result["verdict"] or "not confirmed"
    if finding["high"] is None:
        text = f"at least {finding['low']:.2f}"
    else:
        text = f"{finding['ratio']:.2f} ({finding['low']:.2f} to {finding['high']:.2f})"
    return text if result["verdict"] == "faster" else f"{text}: {result['verdict']}"


def _setting(setting: dict[str, Any] | None) -> str:
    if setting is None:
        return "none yet"
    return " ".join(f"{name}={value}" for name, value in setting.items()) or "baseline"


def _held(explained: dict[str, Any]) -> str:
    """What held the runs back, and for which share of the time: the baseline, then the best."""
    verdicts = {
        run["name"]: run["sentence"].removeprefix("held back by ").partition(" of the time")[0]
        for run in explained["runs"]
    }
    names = [name for name in ("baseline", "best") if name in verdicts]  # one where they are one
    return " → ".join(verdicts[name] for name in names) or "not known"


def as_text(rows: Sequence[Row]) -> str:
    """Columns under each other."""
    lines = [HEADERS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADERS))]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def as_markdown(rows: Sequence[Row], machine: str, trials: int) -> str:
    """A page for the docs, with the command that makes it."""
    lines = [HEADERS, ("---",) * len(HEADERS), *rows]
    cells = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    body = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    return _PAGE.format(machine=machine, trials=trials, table=body)


_PAGE = """# Programs that were tuned

Made by `make programs` on {machine}. Each study tries at most {trials} settings. It
ends sooner if almost no further gain is expected, or after ten minutes. The baseline is the
program with no knob set. "Best setting" is what `tune export` writes. "Times faster" is the
ratio that the confirmation measured, with its 95 % interval. It reads "at least" if the launches
of the baseline were stopped once the bound held ([method](method.md)). The last column is what
`tune explain` names as the bottleneck, with its share of the time ([explain](explain.md)).

{table}
"""
