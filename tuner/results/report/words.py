"""What the report says beside its figures: rows, commands, lines. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from tuner.launch.secrets import HIDDEN
from tuner.model import StudyState, figures, price, wording
from tuner.model.errors import UsageError
from tuner.results import claims
from tuner.results.explain.explained_runs import ExplainedRun, explained_run, table
from tuner.results.exporters import shell
from tuner.results.report import facts
from tuner.results.report.plots import Table, runs
from tuner.results.study_view import StudyView, settings_table

Row = tuple[str, str]

#: How far a study is that has not ended as it should.
_STATES = {
    StudyState.RUNNING: "This study is still running: this page may change.",
    StudyState.INTERRUPTED: "This study was interrupted: type its command again to continue it.",
    StudyState.FAILED: "This study failed.",
}


def verdict(data: StudyView) -> str:
    """The sentence that ``tune`` ends with."""
    said = claims.comparison(data.result) or "Nothing was measured yet"
    return wording.capital(said)


def state(data: StudyView) -> str:
    """A warning if the study has not ended; else empty."""
    return _STATES.get(data.result.state, "")


def summary(data: StudyView) -> list[Row]:
    """The result in rows."""
    result, spec = data.result, data.spec
    rows: list[Row] = []
    if runs.best(data) is not None:
        rows.append(("Best setting", facts.handed_over(data)))
    rows += [(wording.capital(side.name), _times(data, side)) for side in runs.sides(data)]
    losses = facts.final_losses(data)
    rows += [("Final loss", wording.capital(losses.removeprefix("final loss ")))] if losses else []
    rows += [("Rate and price", wording.capital(line)) for line in price.lines(spec, result)]
    paid = claims.break_even(result)
    if paid is not None:
        rows.append(("Break-even", wording.capital(str(paid))))
    rows.append(("Tried", f"{claims.measured(result)} in {claims.launch_count(result)}"))
    if result.failures:
        rows.append(("Failed", wording.count(result.failures, "launch", "launches")))
    took_s = result.search_s + result.confirm_s
    rows.append(("Time spent", wording.duration(took_s)))
    if result.reason:
        rows.append(("Ended", wording.capital(result.reason)))
    return rows


def _times(data: StudyView, side: runs.Side) -> str:
    """The median with its interval; of what never came to its end, what is known."""
    costs, mark = side.costs
    if costs:
        number = f", {len(costs)} runs" if len(costs) > 1 else ""
        projected = ", projected by the pace" if mark else ""
        return mark + runs.spelled(data.spec.objective, runs.centre(costs)) + number + projected
    said = list(dict.fromkeys(runs.said(data.spec.objective, run) for run in side.runs))
    return "; ".join(said[:3]) or "not launched"


@dataclass(frozen=True)
class Bar:
    """One bar of the comparison at the top; ``kind`` is a class of the page's style."""

    name: str
    kind: str
    share: float  # of the longest bar
    text: str


def bars(data: StudyView) -> list[Bar]:
    """The median of each side of the comparison that has one, as long as its figure is large."""
    objective, medians = data.spec.objective, []
    for side in runs.sides(data):
        costs, mark = side.costs
        if costs:
            median = runs.centre(costs).median
            kind = "baseline" if side.name == "your defaults" else side.name.partition(" ")[0]
            text = mark + figures.shown(objective, median)
            medians.append((side.name, kind, objective.figure(median), text))
    longest = max((figure for _, _, figure, _ in medians), default=0.0)
    if longest <= 0:
        return []
    return [
        Bar(name, kind, round(max(0.0, figure) / longest, 4), text)
        for name, kind, figure, text in medians
    ]


def use(data: StudyView, storage: str) -> list[Row]:
    """Commands that use the result, each with what it does; empty if there is none.

    Args:
        data: The study.
        storage: The database as the commands name it; empty if that goes without saying.
    """
    if runs.best(data) is None:
        return []
    name = shlex.quote(data.spec.name)
    place = f" --storage {shlex.quote(storage)}" if storage else ""
    what = "your defaults" if data.keeps_defaults else "this setting"
    return [
        (f"tune export {name}{place} --format sh -o job.sh", f"the whole job with {what}"),
        (f"tune exec {name}{place} -- COMMAND", f"any command with {what}"),
        (f"tune show {name}{place}", "every setting, what each knob contributes, failures"),
    ]


def script(data: StudyView) -> str:
    """The script that an export writes; empty if there is none, such as without its launcher."""
    try:
        return "" if runs.best(data) is None else shell.script(data).text
    except UsageError:
        return ""


def blocks(data: StudyView) -> list[tuple[str, list[str]]]:
    """What there is to know beside the times, by heading; empty ones are left out."""
    knob_lines = facts.knob_lines(data)
    sections = [
        ("Knobs in the best run", facts.effect_lines(data)),
        ("Knobs over all launches", knob_lines),
        ("Not tuned here", [f"{name}: {why}" for name, why in data.spec.left_out]),
        ("Core budget", facts.budget_lines(data)),
        ("Notes", [note for note in data.result.notes if note not in knob_lines]),
    ]
    return [(heading, lines) for heading, lines in sections if lines]


def explained(data: StudyView) -> list[ExplainedRun]:
    """What held best and baseline back, as ``tune explain`` says it; only what was recorded."""
    explained_runs = []
    for side in runs.sides(data):
        for record in runs.standing(data, side.setting):
            if (telemetry := record.outcome.telemetry) is not None:
                explained_runs.append(explained_run(side.name, record, telemetry, data))
                break
    return explained_runs


def recorded_table(explained_runs: list[ExplainedRun]) -> Table | None:
    """What was recorded of each, side by side; ``None`` if nothing was."""
    rows = [tuple(row) for row in table(explained_runs)]
    return Table.of(("", *(run.name for run in explained_runs)), rows) if rows else None


def settings(data: StudyView) -> Table:
    """Every setting, the fastest first."""
    table = settings_table(data)
    return Table.of(table.head, table.rows)


def machine(data: StudyView) -> list[Row]:
    """Where it was measured."""
    spec, host = data.spec, data.spec.machine
    several = "" if spec.layout.is_local else f" ({wording.by_host(spec.layout)})"
    rows = [
        ("Host", host.hostname),
        ("Processor", f"{host.cpu_model}, {_cores(data)}"),
        ("Memory", wording.gibibytes(host.memory_bytes)),
        ("NUMA nodes", str(host.numa_nodes)),
        ("GPUs", ", ".join(host.gpus) or "none"),
        ("Ranks", f"{spec.layout.ranks}{several}"),
        ("MPI", f"{wording.launcher(spec.launcher)} ({spec.launcher.mpirun})"),
    ]
    return [*rows, ("Measured", measured(data))] if data.records else rows


def measured(data: StudyView) -> str:
    """From when to when the launches were made; empty without any."""
    started = [record.started_at for record in data.records]
    if not started:
        return ""
    first, last = _moment(min(started)), _moment(max(started))
    return f"{first} (UTC)" if first == last else f"{first} to {last} (UTC)"


def _moment(started_at: str) -> str:
    """``2026-01-02 03:04:05`` of an ISO 8601 time."""
    return started_at[:19].replace("T", " ")


def _cores(data: StudyView) -> str:
    """``2 cores (4 CPUs in the machine)``."""
    host = data.spec.machine
    said = wording.count(host.cores, "core")
    if host.cores == host.logical_cpus:
        return said
    return f"{said} of {wording.count(host.logical_cpus, 'CPU')}"


def commands(data: StudyView) -> list[Row]:
    """The commands that measured this: of the study, and of the last launch of the best."""
    spec, rows = data.spec, []
    if spec.typed:
        folder = f"cd {shlex.quote(spec.folder)} && " if spec.folder else ""
        again = folder + shlex.join(("tune", *spec.typed))
        rows.append((again, "the study once more (add --fresh to measure anew)"))
    chosen = runs.best(data)
    launch = [
        record
        for record in data.records
        if record.outcome.samples and data.pooling.canonical(record.setting) == chosen
    ]
    if launch and launch[-1].argv:
        rows.append((shlex.join(launch[-1].argv), f"launch {launch[-1].number}, as it was made"))
    return rows


def has_hidden(data: StudyView) -> bool:
    """True if a command above has a word that is hidden."""
    return any(HIDDEN in line for line, _ in commands(data))


def failures(data: StudyView) -> Table | None:
    """What failed and what was excluded, launch by launch; ``None`` if nothing was."""
    rows = [
        (str(launch["number"]), str(launch["name"]), str(launch["failure"]), f"{launch['folder']}/")
        for launch in facts.failures(data)
    ]
    rows += [
        (str(launch["number"]), str(launch["name"]), f"excluded: {launch['excluded']}", "")
        for launch in facts.excluded(data)
    ]
    rows.sort(key=lambda row: int(row[0]))
    return Table.of(("launch", "setting", "why", "log folder"), rows) if rows else None
