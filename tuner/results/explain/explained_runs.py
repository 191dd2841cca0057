"""The launches that are explained: their figures side by side, their verdicts in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuner.model import Finished, LaunchRecord, Setting, Stopped, Telemetry
from tuner.results.explain import explain
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Diagnosis, Remedy, is_turned, per_cent
from tuner.results.study_view import StudyView
from tuner.stats import evidence

#: A line of the table with less than this everywhere is left out.
_LEAST = 0.005

#: Verdicts that nothing held the run back.
_HELD_BY_NOTHING = frozenset({Cause.CPU, Cause.GPU, Cause.UNKNOWN})


@dataclass(frozen=True)
class ExplainedRun:
    """One run; ``name`` is what it goes by (``best``)."""

    name: str
    record: LaunchRecord
    explanation: Diagnosis

    @property
    def sentence(self) -> str:
        """The verdict: ``held back by a rank that the others wait for (rank 1): 84 % …``."""
        suspect = self.explanation.suspect
        if suspect.cause is Cause.UNKNOWN:
            return "what held it back cannot be told"
        held = "" if suspect.cause in _HELD_BY_NOTHING else "held back by "
        share, certainty = per_cent(suspect.share), self.explanation.certainty
        return f"{held}{suspect}, {share} of the time ({certainty})"

    @property
    def lines(self) -> list[str]:
        """What shows it, which knob addresses it, and what else was found."""
        explanation = self.explanation
        is_known = explanation.cause is not Cause.UNKNOWN
        turn = [_remedy_sentence(explanation.remedy)] if is_known else []
        others = explanation.others
        also = [f"also: {other}, {per_cent(other.share)} of the time" for other in others]
        return [*explanation.suspect.evidence, *turn, *also]


def _remedy_sentence(remedy: Remedy | None) -> str:
    if remedy is None:
        return "no knob here addresses it"
    how = "another value of" if remedy.direction == "another" else f"a {remedy.direction}"
    where = "" if remedy.tuned else f" (this study does not tune it: --knob {remedy.knob}=…)"
    return f"{how} {remedy.knob} addresses it{where}"


def explained_run(
    name: str, record: LaunchRecord, telemetry: Telemetry | None, data: StudyView
) -> ExplainedRun:
    """Return the verdict on a launch whose record is kept apart from its telemetry.

    It names no knob that the study's own launches contradict.
    """
    outcome = replace(record.outcome, telemetry=telemetry)
    explanation = explain(outcome, record.setting, data.spec, record.machine)
    remedy = explanation.remedy
    if remedy is not None and _is_contradicted(remedy, record.setting, data):
        explanation = replace(explanation, remedy=None)
    return ExplainedRun(name, record, explanation)


def _is_contradicted(remedy: Remedy, setting: Setting, data: StudyView) -> bool:
    """Return whether a knob was turned this way, with all others as they are, and won nothing."""
    own = data.pooling.canonical(setting)
    times_s = {m.setting: m.elapsed_s for m in data.measurements if m.elapsed_s is not None}
    values = data.pooling.filled(own).as_dict()
    gains = []
    for setting_, time_s in times_s.items():
        others = data.pooling.filled(setting_).as_dict()
        differing = [name for name in {*values, *others} if values.get(name) != others.get(name)]
        if differing == [remedy.knob] and own in times_s:
            value, other = values.get(remedy.knob), others.get(remedy.knob)
            gains += [times_s[own] / time_s] if is_turned(value, other, remedy.direction) else []
    return bool(gains) and max(gains) <= 1 + data.spec.precision


def median_run(
    records: Sequence[LaunchRecord], setting: Setting, canonical: Callable[[Setting], Setting]
) -> LaunchRecord | None:
    """Return the median run of a setting; of one that never came to its end the longest look.

    Launches that do not count are passed over. So are windows of a running job, of which less was
    recorded, if there is a launch, and launches side by side, of which nothing was, if there is
    another one. ``setting`` is in its canonical form, to which ``canonical`` maps.
    """
    mine = [record for record in evidence.counted(records) if canonical(record.setting) == setting]
    mine = [record for record in mine if record.outcome.side_by_side is None] or mine
    mine = [record for record in mine if record.outcome.window is None] or mine
    timed = [
        (record.outcome.ending.elapsed_s, record.number, record)
        for record in mine
        if isinstance(record.outcome.ending, Finished)
    ]
    if timed:
        return sorted(timed, key=lambda entry: entry[:2])[len(timed) // 2][2]
    cut = [record for record in mine if isinstance(record.outcome.ending, Stopped)]
    return max(cut or mine, key=lambda record: record.outcome.wall_s, default=None)


# --- what was recorded, side by side ---------------------------------------------------------

_OF_PHASES = {"compute": "own work", "loader": "loading data", "exchange": "exchange"}
_PARTS = {"ran": "running", "queued": "queued", "slept": "blocked"}

_OF_RANKS = {
    "cores used by the ranks": ("own_user_cores", "own_system_cores"),
    "cores used by their children": ("children_cores",),
    "threads waiting for a core": ("own_queue_threads", "children_queue_threads"),
}

#: The columns of the host, with the factor and the form in which they are shown.
_OF_HOST = {
    "cores used by others": ("others_cores", 1.0, "{:.3g}"),
    "cores taken by the hypervisor": ("steal_cores", 1.0, "{:.3g}"),
    "held back by a quota": ("throttled_share", 1.0, "{:.0%}"),
    "waiting for a disk (PSI)": ("io_pressure_share", 1.0, "{:.0%}"),
    "waiting for memory (PSI)": ("memory_pressure_share", 1.0, "{:.0%}"),
    "network": ("network_bytes_per_s", 1e-6, "{:.3g} MB/s"),
    "GPUs: utilisation": ("gpu_share", 1.0, "{:.0%}"),
    "GPUs: power": ("gpu_power_w", 1.0, "{:.3g} W"),
}


def table(runs: Sequence[ExplainedRun]) -> list[list[str]]:
    """Return what was recorded of each, a line a figure; what is nothing everywhere is left out."""
    columns = [_figures(run.explanation.case) for run in runs]
    return [
        [label, *(column[label][1] for column in columns)]
        for label in columns[0]
        if any(column[label][0] >= _LEAST for column in columns)
    ]


def _figures(case: Case) -> dict[str, tuple[float, str]]:
    """Return each figure and how it is shown; nothing is shown if it was not recorded."""
    figures = {}
    for phase, label in _OF_PHASES.items():
        shares = {word: case.phase(phase, part) for word, part in _PARTS.items()}
        texts = [f"{word} {share:.0%}" for word, share in shares.items() if share >= _LEAST]
        text = f"{case.phase(phase):.0%}" + f" ({', '.join(texts)})" * bool(texts)
        figures[f"main threads: {label}"] = case.phase(phase), text if case.inside else ""
    for label, names in _OF_RANKS.items():
        total = case.total(*names)
        figures[label] = total, f"{total:.3g}" if case.outside else ""
    for label, (name, factor, form) in _OF_HOST.items():
        figure = case.get(name) * factor
        figures[label] = figure, form.format(figure) if name in case.host else ""
    return figures
