"""The lines that the terminal and the report show of a study. Pure."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter

from tuner.knobs import core_budget, setting_text, space
from tuner.launch import render
from tuner.model import Failed, Measurement, StudySpec, StudyState, Verdict, figures, price, wording
from tuner.results import claims
from tuner.results.explain.explained_runs import ExplainedRun, explained_run, median_run
from tuner.results.study_view import Side, StudyView

Row = tuple[str, str]

#: What the report says of a study that has not ended as it should, by its state.
_STATES = {
    StudyState.RUNNING: "This study is still running: this page may change.",
    StudyState.INTERRUPTED: "This study was interrupted: type its command again to continue it.",
    StudyState.FAILED: "This study failed.",
}

_VERDICTS = {
    Verdict.HONOURED: "took effect",
    Verdict.CAPPED: "capped",
    Verdict.OVERRIDDEN: "overridden by the program",
    Verdict.NOT_OBSERVABLE: "the effect could not be observed",
}


def verdict(data: StudyView) -> str:
    """Return the sentence that ``tune`` ends with."""
    return wording.capital(claims.comparison(data.result) or "nothing was measured yet")


def state(data: StudyView) -> str:
    """Warn if the study has not ended; else empty."""
    return _STATES.get(data.result.state, "")


def summary(data: StudyView) -> list[Row]:
    """Return the result in rows."""
    result, spec = data.result, data.spec
    failures = wording.count(result.failures, "launch", "launches") if result.failures else ""
    rows = [
        ("Best setting", data.handed_over if data.best_side else ""),
        *((side.name, side_text(data, side)) for side in data.sides),
        ("Final loss", final_losses(data).removeprefix("final loss ")),
        *(("Rate and price", line) for line in price.lines(spec, result)),
        ("Break-even", claims.break_even(result)),
        ("Tried", f"{claims.measured(result)} in {claims.launch_count(result)}"),
        ("Failed", failures),
        ("Time spent", wording.duration(result.search_s + result.confirm_s)),
        ("Ended", result.reason),
    ]
    return [
        (wording.capital(name), text if name == "Best setting" else wording.capital(text))
        for name, text in rows
        if text
    ]


def side_text(data: StudyView, side: Side) -> str:
    """Return the median of a side with its range; without one, how its launches ended."""
    objective = data.spec.objective
    if side.costs:
        return figures.spread(objective, side.costs)
    if side.projections:
        return f"~{figures.spread(objective, side.projections)}, projected by the pace"
    ends = [figures.came_to(objective, launch.outcome) for launch in side.launches]
    return "; ".join(list(dict.fromkeys(ends))[:3]) or "not launched"  # at most three


def bars(data: StudyView) -> list[tuple[Side, float, str]]:
    """Return each side that has a median, with its share of the longest, and its text."""
    objective = data.spec.objective
    medians = [
        (side, statistics.median(side.costs or side.projections), "" if side.costs else "~")
        for side in data.sides
        if side.costs or side.projections
    ]
    longest = max((objective.figure(cost) for _, cost, _ in medians), default=0.0)
    return [
        (side, round(objective.figure(cost) / longest, 4), mark + figures.shown(objective, cost))
        for side, cost, mark in medians
        if longest > 0
    ]


def final_losses(data: StudyView) -> str:
    """Say what the training came to with the best setting and with the defaults, if known."""

    def loss(measurement: Measurement | None) -> float | None:
        samples = () if measurement is None else measurement.samples
        losses = [sample.loss for sample in samples if sample.loss is not None]
        return statistics.median(losses) if losses else None

    best, baseline = data.result.best, loss(data.result.baseline)
    best_loss = loss(best)
    if best is None or best.setting.is_baseline or best_loss is None:
        return ""
    if baseline is None:
        return f"final loss {best_loss:.4g}; your defaults never ran to their end"
    return f"final loss {best_loss:.4g}, with your defaults {baseline:.4g}"


def use(data: StudyView, storage: str) -> list[Row]:
    """Return commands that use the result, each with what it does.

    ``storage`` is the database as the commands name it; empty if that goes without saying.
    """
    name = shlex.quote(data.spec.name)
    place = f" --storage {shlex.quote(storage)}" if storage else ""
    show = (f"tune show {name}{place}", "every setting, what each knob contributes, failures")
    if data.best_side is None:
        return [show]
    what = "your defaults" if data.keeps_defaults else "this setting"
    return [
        (f"tune export {name}{place} --format sh -o job.sh", f"the whole job with {what}"),
        (f"tune exec {name}{place} -- COMMAND", f"any command with {what}"),
        show,
    ]


def blocks(data: StudyView) -> list[tuple[str, list[str]]]:
    """Return what is known beside the times, as lines under headings; none without a line."""
    over_all = [
        *(wording.capped(cap) for cap in data.result.caps),
        *(wording.not_tuned(name, why) for name, why in data.pooling.dropped),
    ]
    sections = [
        ("Knobs in the best run", effect_lines(data)),
        ("Knobs over all launches", over_all),
        ("Not tuned here", [f"{name}: {why}" for name, why in data.spec.left_out]),
        ("Core budget", budget_lines(data)),
        ("Notes", [note for note in data.result.notes if note not in over_all]),
    ]
    return [(heading, lines) for heading, lines in sections if lines]


def effect_lines(data: StudyView) -> list[str]:
    """Say how each knob of the best setting took effect, knobs with the same outcome together.

    A knob that had one possible value is left out, unless the user fixed it or something is wrong.
    """
    names_by_text: dict[str, list[str]] = {}
    dropped, fixed = dict(data.pooling.dropped), data.spec.fixed.as_dict()
    for effect in data.effects:
        is_wrong = effect.verdict in (Verdict.CAPPED, Verdict.OVERRIDDEN)
        is_plain = effect.knob in data.without_choice and effect.knob not in fixed
        if effect.knob in dropped or (is_plain and not is_wrong):
            continue
        is_known = is_wrong and effect.observed is not None
        observed = f", came to {effect.observed}" if is_known else ""
        why = f" ({effect.reason})" if effect.reason else ""
        text = f"{_VERDICTS[effect.verdict]}{observed}{why}"
        names_by_text.setdefault(text, []).append(f"{effect.knob}={effect.asked}")
    return [f"{', '.join(names)}: {text}" for text, names in names_by_text.items()]


def budget_lines(data: StudyView) -> list[str]:
    """Say how many cores the settings need, and which are left out as they need too many."""
    lines = core_budget.summary(data.spec), core_budget.left_out(data.spec)
    return [line for line in lines if line]


def contribution_rows(data: StudyView) -> list[Row]:
    """Say what each knob alone contributes to the best setting."""
    rows = []
    for part in data.contributions:
        name = part.knob if part.value is None else f"{part.knob}={part.value}"
        rows.append((setting_text.shortened(name), claims.contribution(part, data.spec.precision)))
    return rows


def inherited(data: StudyView) -> dict[str, str]:
    """Return variables of the knobs that the user's own environment set for the baseline."""
    baseline = next((record for record in data.records if record.setting.is_baseline), None)
    return {} if baseline is None else render.inherited(baseline.env, data.spec.knobs)


def failure_lines(data: StudyView) -> list[str]:
    """Return the reasons of failed launches, each once, with the number of launches."""
    endings = [record.outcome.ending for record in data.failures]
    reasons = Counter(wording.failure(e) for e in endings if isinstance(e, Failed))
    return [
        f"{wording.count(number, 'launch', 'launches')}: {why}"
        for why, number in reasons.most_common()
    ]


def explained(data: StudyView) -> list[ExplainedRun]:
    """Say what held best and baseline back, as far as their launches were recorded."""
    runs = []
    for side in data.sides:
        record = median_run(data.records, side.setting)
        if record is not None and (telemetry := record.outcome.telemetry) is not None:
            runs.append(explained_run(side.name, record, telemetry, data))
    return runs


def ranks(spec: StudySpec) -> str:
    """Write how many ranks launches have: ``8 ranks``, or ``1 to 8 ranks (4 by default)``."""
    if spec.rank_counts is None:
        return wording.ranks(spec.layout)
    numbers, by_default = space.rank_numbers(spec), spec.layout.ranks_per_host
    hosts = "" if spec.layout.is_local else f" on each of {len(spec.layout.hosts)} hosts"
    return f"{numbers[0]} to {numbers[-1]} ranks{hosts} ({by_default} by default)"


def machine(data: StudyView) -> list[Row]:
    """Say on which machine, with which launcher, and when the study was measured."""
    spec, host = data.spec, data.spec.machine
    slots = "" if spec.layout.is_local else f" ({wording.by_host(spec.layout)})"
    cpus = f" of {wording.count(host.logical_cpus, 'CPU')}" * (host.cores != host.logical_cpus)
    return [
        ("Host", host.hostname),
        ("Processor", f"{host.cpu_model}, {wording.count(host.cores, 'core')}{cpus}"),
        ("Memory", wording.gibibytes(host.memory_bytes)),
        ("NUMA nodes", str(host.numa_nodes)),
        ("GPUs", ", ".join(host.gpus) or "none"),
        ("Ranks", ranks(spec) if spec.rank_counts else f"{spec.layout.ranks}{slots}"),
        ("MPI", f"{wording.launcher(spec.launcher)} ({spec.launcher.mpirun})".removesuffix(" ()")),
        *([("Measured", measured(data))] if data.records else []),
    ]


def measured(data: StudyView) -> str:
    """Say from when to when the launches were made (UTC); empty without any."""
    started = sorted(record.started_at[:19].replace("T", " ") for record in data.records)
    ends = dict.fromkeys((started[0], started[-1])) if started else ()
    return f"{' to '.join(ends)} (UTC)" if ends else ""


def commands(data: StudyView) -> list[Row]:
    """Return the command of the study, and that of the last launch of the best setting."""
    spec, rows = data.spec, []
    if spec.typed:
        folder = f"cd {shlex.quote(spec.folder)} && " if spec.folder else ""
        command = folder + shlex.join(("tune", *spec.typed))
        rows.append((command, "the study once more (add --fresh to measure anew)"))
    launches = data.best_side.launches if data.best_side else ()
    finished = [record for record in launches if record.outcome.samples and record.argv]
    if finished:
        last = finished[-1]
        rows.append((shlex.join(last.argv), f"launch {last.number}, as it was made"))
    return rows
