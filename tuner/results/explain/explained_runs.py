"""The launches that are explained: their figures side by side, their verdicts in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuner.model import (
    Finished,
    LaunchRecord,
    Measurement,
    Setting,
    Stopped,
    Telemetry,
    Value,
)
from tuner.results.claims import rounded_down
from tuner.results.explain import explain
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Explanation, Remedy, per_cent
from tuner.results.study_view import StudyView
from tuner.stats import estimates

#: A figure and how it is shown; ``None`` if it was not seen.
Cell = Callable[[Case], tuple[float, str] | None]

#: A line of the table with less than this everywhere is left out.
_LEAST = 0.005

#: Verdicts that nothing held the run back.
_FOUND_NOTHING = frozenset({Cause.CPU, Cause.GPU, Cause.UNKNOWN})


def _host(name: str, shown: str = "{:.3g}", scale: float = 1.0) -> Cell:
    def cell(case: Case) -> tuple[float, str] | None:
        figure = case.host.get(name)
        return None if figure is None else (figure * scale, shown.format(figure * scale))

    return cell


def _ranks(*names: str) -> Cell:
    def cell(case: Case) -> tuple[float, str] | None:
        is_recorded = any(name in rank.columns for rank in case.ranks for name in names)
        figure = sum(map(case.total, names))
        return (figure, f"{figure:.3g}") if is_recorded else None

    return cell


def _phase(phase: str) -> Cell:
    def cell(case: Case) -> tuple[float, str] | None:
        parts = [("ran", "running"), ("queued", "queued"), ("slept", "blocked")]
        texts = [
            f"{word} {share:.0%}"
            for word, part in parts
            if (share := case.phase(phase, part)) >= _LEAST
        ]
        share = case.phase(phase)
        return (
            (share, f"{share:.0%}" + f" ({', '.join(texts)})" * bool(texts))
            if case.inside
            else None
        )

    return cell


_SHARE = "{:.0%}"

#: Each line of the table: what it is, and its figure.
ROWS: tuple[tuple[str, Cell], ...] = (
    ("main threads: own work", _phase("compute")),
    ("main threads: loading data", _phase("loader")),
    ("main threads: exchange", _phase("exchange")),
    ("cores used by the ranks", _ranks("own_user_cores", "own_system_cores")),
    ("cores used by their children", _ranks("children_cores")),
    ("threads waiting for a core", _ranks("own_queue_threads", "children_queue_threads")),
    ("threads of the job", _ranks("threads")),
    ("cores used by others", _host("others_cores")),
    ("cores taken by the hypervisor", _host("steal_cores")),
    ("held back by a quota", _host("throttled_share", _SHARE)),
    ("waiting for a disk (PSI)", _host("io_pressure_share", _SHARE)),
    ("waiting for memory (PSI)", _host("memory_pressure_share", _SHARE)),
    ("network", _host("network_bytes_per_s", "{:.3g} MB/s", 1e-6)),
    ("network, most in a millisecond", _host("network_burst_bytes_per_s", "{:.3g} MB/s", 1e-6)),
    ("milliseconds with traffic", _host("network_busy_share", _SHARE)),
    ("GPUs: utilisation", _host("gpu_share", _SHARE)),
    ("GPUs: power", _host("gpu_power_w", "{:.3g} W")),
)


def table(runs: Sequence[ExplainedRun]) -> list[list[str]]:
    """What was seen of each launch, a line a figure; what is nothing everywhere is left out."""
    rows = []
    for label, cell in ROWS:
        values = [cell(run.explanation.case) for run in runs]
        if any(value is not None and value[0] >= _LEAST for value in values):
            rows.append([label, *("" if value is None else value[1] for value in values)])
    return rows


def sentence(explanation: Explanation) -> str:
    """The verdict: ``held back by a rank that the others wait for (rank 1): 84 % …``."""
    if explanation.cause is Cause.UNKNOWN:
        return "what held it back cannot be told"
    what = (
        f"{explanation.cause} ({explanation.suspect.subject})"
        if explanation.suspect.subject
        else str(explanation.cause)
    )
    said = what if explanation.cause in _FOUND_NOTHING else f"held back by {what}"
    return f"{said}, {per_cent(explanation.suspect.share)} of the time ({explanation.certainty})"


def remedy_sentence(remedy: Remedy | None) -> str:
    """What to turn; that no knob helps, if none does."""
    if remedy is None:
        return "no knob here addresses it"
    if remedy.gain is not None:
        gain = rounded_down(remedy.gain)
        return f"another value of {remedy.knob} was at least {gain} times better in this study"
    how = "another value of" if remedy.direction == "another" else f"a {remedy.direction}"
    where = "" if remedy.tuned else f" (this study does not tune it: --knob {remedy.knob}=…)"
    return f"{how} {remedy.knob} addresses it{where}"


def median_run(
    records: Sequence[LaunchRecord], setting: Setting, canonical: Callable[[Setting], Setting]
) -> LaunchRecord | None:
    """The median run of a setting; of one that never came to its end the longest look.

    Args:
        records: Of one study; launches that do not count are passed over. So are windows of a
            running job, of which less was recorded, if there is a launch, and launches side by
            side, of which nothing was, if there is another one.
        setting: In its canonical form.
        canonical: Maps a setting to it.
    """
    mine = [record for record in estimates.counted(records) if canonical(record.setting) == setting]
    mine = [record for record in mine if record.outcome.side_by_side is None] or mine
    mine = [record for record in mine if record.outcome.window is None] or mine
    timed = sorted(
        ((record.outcome.ending.elapsed_s, record.number, record) for record in mine
         if isinstance(record.outcome.ending, Finished)),
        key=lambda entry: entry[:2],
    )  # fmt: skip
    if timed:
        return timed[len(timed) // 2][2]
    cut = [record for record in mine if isinstance(record.outcome.ending, Stopped)]
    return max(cut or mine, key=lambda record: record.outcome.wall_s, default=None)


@dataclass(frozen=True)
class ExplainedRun:
    """One run; ``name`` is what it goes by (``best``)."""

    name: str
    record: LaunchRecord
    explanation: Explanation

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return sentence(self.explanation)

    @property
    def lines(self) -> list[str]:
        """What shows it, which knob addresses it, and what else was found."""
        explanation = self.explanation
        turn = [] if explanation.cause is Cause.UNKNOWN else [remedy_sentence(explanation.remedy)]
        also = [
            f"also: {other.cause}{f' ({other.subject})' if other.subject else ''},"
            f" {per_cent(other.share)} of the time"
            for other in explanation.others
        ]
        return [*explanation.suspect.evidence, *turn, *also]


def explained_run(
    name: str, record: LaunchRecord, telemetry: Telemetry | None, data: StudyView
) -> ExplainedRun:
    """Return the verdict on a launch whose record is kept apart from its telemetry."""
    outcome = replace(record.outcome, telemetry=telemetry)
    explanation = explain(outcome, record.setting, data.spec, record.machine)
    remedy = _by_launches(explanation.remedy, record.setting, data)
    return ExplainedRun(name, record, replace(explanation, remedy=remedy))


#: A setting of which each run was this many times better shows that the one knob in which it
#: differs helps.
_HELPS = 1.1


def _by_launches(remedy: Remedy | None, setting: Setting, data: StudyView) -> Remedy | None:
    """Return the remedy; if the study's own launches contradict it, what they show to help.

    Two measured settings that differ in one knob alone show what this knob does. A launch that was
    stopped shows how much another setting is better at least, and contradicts nothing.
    """
    by_setting = {m.setting: m for m in data.measurements}
    own = by_setting.get(data.pooling.canonical(setting))
    if own is None or (own.elapsed_s is None and remedy is not None):
        return remedy
    values = data.pooling.filled(own.setting).as_dict()
    gains: list[float] = []
    helpful: list[tuple[float, str]] = []
    for other in by_setting.values():
        others = data.pooling.filled(other.setting).as_dict()
        differing = [n for n in {*values, *others} if values.get(n) != others.get(n)]
        if len(differing) != 1 or other.elapsed_s is None:
            continue
        (name,) = differing
        if (
            remedy is not None
            and own.elapsed_s is not None
            and name == remedy.knob
            and _is_turned(values.get(name), others.get(name), remedy.direction)
        ):
            gains.append(own.elapsed_s / other.elapsed_s)
        gain = _least_gain(own, other)
        if gain >= _HELPS:
            helpful.append((gain, name))
    if remedy is not None and (not gains or max(gains) > 1 + data.spec.precision):
        return remedy
    if not helpful:
        return None
    gain, name = max(helpful)
    return Remedy(name, "another", gain=gain)


def _least_gain(own: Measurement, other: Measurement) -> float:
    """Return how many times better the worst run of another setting is than the best of its own."""
    times_s = [run.elapsed_s for run in own.samples]
    if not times_s and own.stopped is not None:
        times_s = [own.stopped.bound_s]
    return min(times_s, default=0.0) / max(run.elapsed_s for run in other.samples)


def _is_turned(value: Value | None, other: Value | None, direction: str) -> bool:
    """Return whether the other value lies in this direction; true if that cannot be told."""
    if direction == "another" or not isinstance(value, int) or not isinstance(other, int):
        return True
    return other < value if direction == "lower" else other > value
