"""The note on a study's page: what ``tune`` says at its end, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner import claims, wording

if TYPE_CHECKING:
    from tuner.exporters import ExportInput


def note(data: ExportInput) -> str:
    """The result as Markdown."""
    spec, result = data.spec, data.result
    lines = [f"## {spec.name}", "", f"**{claims.comparison(result)}**", ""]
    if result.best is not None and result.best.elapsed_s is not None:
        setting = wording.assigned(data.best_setting, spec.knobs)
        same = data.best_setting == result.best.setting
        time = f", {wording.seconds(result.best.elapsed_s)}" if same else ""
        lines.append(f"- best: `{setting}`{time}")
    baseline = result.baseline
    if baseline is not None and baseline.elapsed_s is not None:
        lines.append(f"- your defaults: {wording.seconds(baseline.elapsed_s)}")
    elif baseline is not None and baseline.failure is not None:
        lines.append(f"- your defaults failed: {wording.failure(baseline.failure)}")
    elif baseline is not None and baseline.stopped is not None:
        lines.append(f"- your defaults: {wording.stopped(baseline.stopped)}")
    lines += [
        f"- {wording.count(spec.layout.ranks, 'rank')}, {wording.launcher(spec.launcher)},"
        f" {wording.count(spec.machine.cores, 'core')} of {spec.machine.cpu_model}",
        f"- {wording.count(result.trials, 'setting')},"
        f" {wording.count(result.launches, 'launch', 'launches')},"
        f" {wording.count(result.failures, 'failure')}; {result.state.value}",
        *(f"- {wording.capped(cap)}" for cap in result.caps),
        "",
        "```sh",
        f"tune export {spec.name} --format sh -o job.sh   # the whole job with this setting",
        f"tune exec {spec.name} -- COMMAND                # any command with it",
        f"tune show {spec.name}                           # every setting, importance, failures",
        "```",
        "",
        "The plot of the times stands on the study's first page.",
    ]
    return "\n".join(lines)
