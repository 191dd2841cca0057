"""Which launches are evidence of their settings, and what those of one setting come to. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tuner.model import (
    FROM_OUTSIDE,
    RANKS,
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    Measurement,
    ObjectiveSpec,
    Purpose,
    Setting,
    Stopped,
    Value,
)
from tuner.model.outcome import PACE
from tuner.stats import loss_check


def estimate_s(samples: Sequence[Finished]) -> float | None:
    """Return the median in seconds, which one slow run in three moves little."""
    return statistics.median(s.elapsed_s for s in samples) if samples else None


def full_length(records: Iterable[LaunchRecord]) -> int | None:
    """Return the iterations of a full launch, the most that one made; ``None`` before the first.

    Warm-ups count too: they ran the same program.
    """
    return max((s.iterations for r in records for s in r.outcome.samples), default=None)


#: The batch size and the number of ranks of a setting, if they are tuned.
StepSize = tuple[Value | None, ...]


def step_size(setting: Setting) -> StepSize:
    """Return what an iteration's work depends on: with it the iterations of a run change."""
    chosen = setting.as_dict()
    return chosen.get("batch_size"), chosen.get(RANKS)


def with_wrong_results(records: Iterable[LaunchRecord]) -> tuple[LaunchRecord, ...]:
    """Return the launches with those that have a wrong result as failures.

    Later launches may show how many iterations a launch should make, because the first one may have
    stopped early, and what its loss should be, because guesses are launched before the defaults.
    Lengths are compared among launches with the same batch size and ranks.
    """
    launches = tuple(records)
    lengths: dict[StepSize, int] = {}
    for record in launches:
        size = step_size(record.setting)
        lengths[size] = max(lengths.get(size, 0), full_length([record]) or 0)
    defaults = {r.setting for r in launches if r.purpose is Purpose.BASELINE}
    default_losses = [
        sample.loss
        for record in launches
        if record.setting in defaults
        for sample in record.outcome.samples
        if sample.loss is not None and sample.iterations == lengths[step_size(record.setting)]
    ]
    checked = []
    for record in launches:
        losses = () if record.setting in defaults else default_losses
        if reason := _wrong_result(record, lengths[step_size(record.setting)], losses):
            failed = Failed(FailureKind.WRONG_RESULT, reason)
            checked.append(replace(record, outcome=replace(record.outcome, ending=failed)))
        else:
            checked.append(record)
    return tuple(checked)


def _wrong_result(record: LaunchRecord, length: int, default_losses: Sequence[float]) -> str:
    """Return what is wrong with the result of a launch; empty: nothing is."""
    ending = record.outcome.ending
    if not isinstance(ending, Finished):
        return ""
    if ending.iterations < length:
        return f"its log ends at iteration {ending.iterations}, another launch reached {length}"
    if ending.loss is not None and loss_check.is_worse(ending.loss, default_losses):
        least, most = _shown(min(default_losses)), _shown(max(default_losses))
        usual = least if least == most else f"{least} to {most}"
        return f"its loss ends at {_shown(ending.loss)}, that of the defaults at {usual}"
    return ""


def _shown(loss: float) -> str:
    return "no number" if abs(loss) >= loss_check.DIVERGED else f"{loss:.3g}"


def was_interrupted(record: LaunchRecord) -> bool:
    """Return whether the launch was ended from outside: it says nothing about its setting."""
    ending = record.outcome.ending
    return isinstance(ending, Failed) and ending.kind is FailureKind.INTERRUPTED


def is_excluded(record: LaunchRecord) -> bool:
    """Return whether something outside caused the launch's ending: it is launched again."""
    ending = record.outcome.ending
    is_from_outside = isinstance(ending, Failed) and ending.kind in FROM_OUTSIDE
    return is_from_outside or record.outcome.exclusion is not None


def counted(records: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    """Return the launches that count as evidence about their setting."""
    return [r for r in records if r.purpose.stage.is_evidence and not is_excluded(r)]


def tried(records: Iterable[LaunchRecord]) -> list[Setting]:
    """Return the settings that count against ``--trials``, in the order of their first launches."""
    settings = (r.setting for r in counted(records) if r.purpose.stage.counts_as_trial)
    return list(dict.fromkeys(settings))


def failures(records: Iterable[LaunchRecord]) -> int:
    """Return how many launches, warm-ups included, failed for no reason from outside."""
    return sum(isinstance(r.outcome.ending, Failed) and not is_excluded(r) for r in records)


def of_one_scale(
    records: Sequence[LaunchRecord], objective: ObjectiveSpec
) -> Sequence[LaunchRecord]:
    """Return the launches whose figures can be pooled.

    A figure that is no time on a clock has another scale in a launch that was paused: such launches
    count only if there are no others.
    """
    if objective.clock != "none":
        return records
    unpaused = [record for record in records if record.outcome.side_by_side is None]
    return unpaused if counted(unpaused) else records


def measurements(records: Iterable[LaunchRecord]) -> list[Measurement]:
    """Pool launches of settings that come to the same, in the order of their first launch."""
    groups: dict[Setting, list[LaunchRecord]] = {}
    for record in counted(records):
        groups.setdefault(record.canonical, []).append(record)
    return [_measurement(setting, group) for setting, group in groups.items()]


def _measurement(setting: Setting, group: Sequence[LaunchRecord]) -> Measurement:
    samples = tuple(s for record in group for s in record.outcome.samples)
    endings = [record.outcome.ending for record in group]
    failure = next((e for e in endings if isinstance(e, Failed)), None)
    stopped = [ending for ending in endings if isinstance(ending, Stopped)]
    return Measurement(
        setting=setting,
        samples=samples,
        elapsed_s=estimate_s(samples),
        launches=len(group),
        failure=None if samples or stopped else failure,
        stopped=None if samples else _most_telling(stopped),
        windows=sum(record.outcome.window is not None for record in group),
    )


def _most_telling(stopped: Sequence[Stopped]) -> Stopped | None:
    """Return the lowest forecast, if there is one of a known pace; without any what ran longest."""
    forecasts = [ending for ending in stopped if ending.is_forecast]
    forecasts = [ending for ending in forecasts if ending.rule == PACE] or forecasts
    if forecasts:
        return min(forecasts, key=lambda ending: ending.projection_s)
    return max(stopped, key=lambda ending: ending.bound_s, default=None)


def best(candidates: Iterable[Measurement]) -> Measurement | None:
    """Return the fastest; of equally fast ones the one that takes fewer resources."""

    def rank(measurement: Measurement) -> tuple[float, int, int, str]:
        assert measurement.elapsed_s is not None
        items = measurement.setting.items
        resources = sum(value for _, value in items if isinstance(value, int))
        return measurement.elapsed_s, resources, len(items), measurement.setting.to_json()

    return min((m for m in candidates if m.elapsed_s is not None), key=rank, default=None)
