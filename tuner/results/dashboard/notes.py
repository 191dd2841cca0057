"""The note on a study's page: what ``tune`` says at its end, as Markdown.

What a program wrote when it failed comes along, and so do values and the machine's name for
itself. None of it is Markdown, and none of it may become a link, a picture or a tag.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.knobs import setting_text
from tuner.model import figures, wording
from tuner.results import claims

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView

#: What means something within a line of Markdown; signs of a line's start stand at none.
_SIGNS = re.compile(r"[\\`*_\[\]<>|~&#$!]")

#: Where a bare address becomes a link, even behind backslashes.
_LINKS = re.compile(r":(?=//)|www(?=\.)|@", re.IGNORECASE)

#: Shows nothing, and joins what stands around it.
_WORD_JOINER = "\u2060"


def note(data: StudyView) -> str:
    """The result as Markdown."""
    spec, result = data.spec, data.result
    lines = [f"## {spec.name}", "", f"**{plain(claims.comparison(result))}**", ""]
    if result.best is not None and result.best.elapsed_s is not None:
        setting = setting_text.assigned(data.best_setting, spec.knobs)
        same = data.best_setting == result.best.setting
        time = f", {figures.shown(spec.objective, result.best.elapsed_s)}" if same else ""
        lines.append(f"- best: {code(setting)}{time}")
    baseline = result.baseline
    if baseline is not None and baseline.elapsed_s is not None:
        lines.append(f"- your defaults: {figures.shown(spec.objective, baseline.elapsed_s)}")
    elif baseline is not None and baseline.failure is not None:
        lines.append(f"- your defaults failed: {plain(wording.failure(baseline.failure))}")
    elif baseline is not None and baseline.stopped is not None:
        lines.append(f"- your defaults: {figures.stopped(spec.objective, baseline.stopped)}")
    lines += [
        f"- {wording.count(spec.layout.ranks, 'rank')}, {plain(wording.launcher(spec.launcher))},"
        f" {wording.count(spec.machine.cores, 'core')} of {plain(spec.machine.cpu_model)}",
        f"- {wording.count(result.trials, 'setting')},"
        f" {claims.made(result)},"
        f" {wording.count(result.failures, 'failure')}; {result.state.value}",
        *(f"- {plain(wording.capped(cap))}" for cap in result.caps),
        "",
        "```sh",
        f"tune export {spec.name} --format sh -o job.sh   # the whole job with this setting",
        f"tune exec {spec.name} -- COMMAND                # any command with it",
        f"tune show {spec.name}                           # every setting, importance, failures",
        "```",
        "",
        "The figures stand on the study's first page; `tune report` has all of them in one file.",
    ]
    return "\n".join(lines)


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    escaped = _SIGNS.sub(r"\\\g<0>", _one_line(text))
    return _LINKS.sub(rf"\g<0>{_WORD_JOINER}", escaped)


def code(text: str) -> str:
    """Text as code on one line, between more backticks than it has in a row itself."""
    words = _one_line(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    pad = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{ticks}{pad}{words}{pad}{ticks}"


def _one_line(text: str) -> str:
    """Without line ends, and without what turns the direction of writing or colours a terminal."""
    return "".join(each if each.isprintable() else "\ufffd" for each in " ".join(text.split()))
