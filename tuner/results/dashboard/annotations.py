"""Our annotations on Optuna's page of a study: a note, the report's figures, the importance.

The note is what ``tune`` says at its end, as Markdown. It has text that other programs wrote (a
failure, values, the host name): none of that may become a link, a picture or a tag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tuner.knobs import setting_text
from tuner.model import figures, wording
from tuner.results import claims

if TYPE_CHECKING:
    from tuner.results.report.plots import Figure
    from tuner.results.study_view import StudyView

#: What means something within a line of Markdown; signs of a line's start stand at none.
_SIGNS = re.compile(r"[\\`*_\[\]<>|~&#$!]")

#: Where a bare address becomes a link, even behind backslashes.
_LINKS = re.compile(r":(?=//)|www(?=\.)|@", re.IGNORECASE)

#: Shows nothing, and joins what stands around it.
_WORD_JOINER = "\u2060"


#: In front of the figure's key: its id in the study.
PREFIX = "tune-"

#: The system attribute of an Optuna study that holds our importance of its knobs.
IMPORTANCE = "tune:importance"


def annotate(url: str, data: StudyView) -> None:
    """Save note, figures and importance with the study; the same ones each time.

    Args:
        url: The database that holds the study.
        data: The study as it is stored.

    Raises:
        TunerError: The database cannot be written to.
    """
    from optuna_dashboard import get_note, save_note, save_plotly_graph_object

    from tuner.results.report import weights
    from tuner.study import optuna_trials

    importance = weights(data)
    text, found = note(data), plots(data, importance)
    with optuna_trials.translating(url):
        storage = optuna_trials.open_storage(url)
        study = optuna_trials.load(storage, data.spec.name, figures.axis(data.spec.objective))
        if study is None:
            return
        if get_note(study) != text:  # saving makes a new version each time
            save_note(study, text)
        number = storage.get_study_id_from_name(data.spec.name)
        storage.set_study_system_attr(number, IMPORTANCE, importance)
        for name, figure in found.items():  # under the same names: replaced, not added
            save_plotly_graph_object(study, figure, graph_object_id=name)


def note(data: StudyView) -> str:
    """The result as Markdown."""
    from tuner.results.report import words

    rows = words.use(data, data.result.storage)
    commands = [_one_line(f"{line} # {what}") for line, what in rows]
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
        *(["```sh", *commands, "```", ""] if commands else []),
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


def plots(data: StudyView, weights: Mapping[str, float]) -> dict[str, Any]:
    """Plotly's figures by their id: those that the report shows at once, each with its summary.

    Args:
        data: The study.
        weights: The importance of its knobs.
    """
    from tuner.results.report.plots import FAMILIES

    found = [figure for family in FAMILIES for figure in family.build(data, weights)]
    return {
        f"{PREFIX}{figure.key}": _plot(figure)
        for figure in found
        if figure.drawing is not None and not figure.is_extra
    }


def _plot(figure: Figure) -> Any:
    """The drawing under its title; the page that it stands on is light."""
    import plotly.graph_objects as go

    from tuner.results.report.plots.style import THEMES, inert

    assert figure.drawing is not None
    made = go.Figure(figure.drawing)
    top = {"t": 88} if figure.drawing["layout"].get("showlegend") else {"t": 56}
    title = {"text": inert(figure.title, 120), "x": 0.01, "y": 0.99, "yanchor": "top"}
    made.update_layout(template=THEMES["light"], title=title, margin=top)
    return made
