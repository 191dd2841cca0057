"""What there is to say of a study, line by line: for the terminal and for the report. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from tuner.knobs import core_budget, setting_text, space
from tuner.launch import render
from tuner.model import (
    BASELINE,
    Effect,
    Failed,
    Finished,
    JsonDict,
    Knob,
    LaunchRecord,
    Measurement,
    Setting,
    Verdict,
    wording,
)
from tuner.results.study_view import StudyView
from tuner.stats import estimates

#: How each verdict is told.
_VERDICTS = {
    Verdict.HONOURED: "took effect",
    Verdict.CAPPED: "capped",
    Verdict.OVERRIDDEN: "overridden by the program",
    Verdict.NOT_OBSERVABLE: "could not be observed",
}


def handed_over(data: StudyView) -> str:
    """The setting that is handed over; knobs that had one possible value stand apart as fixed."""
    knobs, chosen = data.spec.knobs, data.best_setting.items
    single = {n for n, _ in data.spec.fixed.items} | {k.name for k in knobs if _has_one_value(k)}
    fixed = Setting.of(item for item in chosen if item[0] in single)
    tuned = Setting.of(item for item in chosen if item[0] not in single)
    if fixed.is_baseline:
        return setting_text.assigned(tuned, knobs)
    text = f"fixed: {setting_text.assigned(fixed, knobs)}"
    return text if tuned.is_baseline else f"{setting_text.assigned(tuned, knobs)} ({text})"


def failures(data: StudyView) -> list[JsonDict]:
    """The failed launches, for people and for ``--json``."""
    return [
        _launch(data, record)
        | {
            "failure": wording.failure(record.outcome.ending),
            "log_tail": record.outcome.ending.log_tail,
            "exit_code": record.outcome.exit_code,
            "folder": record.folder,
        }
        for record in data.records
        if isinstance(record.outcome.ending, Failed) and not estimates.was_interrupted(record)
    ]


def excluded(data: StudyView) -> list[JsonDict]:
    """The launches that do not count, with the reason, for people and for ``--json``."""
    return [
        _launch(data, record) | {"excluded": why.text, "exclusion": asdict(why)}
        for record in data.records
        if (why := record.outcome.exclusion) is not None
    ]


def _launch(data: StudyView, record: LaunchRecord) -> JsonDict:
    """Which launch a fact is of."""
    return {
        "number": record.number,
        "purpose": record.purpose.value,
        "setting": record.setting.as_dict(),
        "name": setting_text.assigned(record.setting, data.spec.knobs),
        "job": None if record.outcome.window is None else record.outcome.window.job,
    }


def kinds(rows: Iterable[JsonDict]) -> str:
    """What failed or was excluded: ``launches``, ``windows``, or both."""
    jobs = [row["job"] for row in rows]
    nouns = ("launches" if None in jobs else "", "windows" if any(jobs) else "")
    return " and ".join(filter(None, nouns))


def best_effects(data: StudyView) -> list[Effect]:
    """How each knob of the best setting took effect in its last run; none without a best."""
    effects: dict[str, Effect] = {}
    best = data.pooling.canonical(data.best_setting) if data.result.best else BASELINE
    for record in data.records if data.result.best else ():
        same = data.pooling.canonical(record.setting) == best
        # (a warm-up that goes on is read before its ranks have reported)
        counts = record.purpose.stage.is_evidence
        if same and counts and isinstance(record.outcome.ending, Finished):
            effects |= {effect.knob: effect for effect in record.outcome.effects}
    return list(effects.values())


def effect_lines(data: StudyView) -> list[str]:
    """The same in words, knobs of the same fate together, without what nobody chose."""
    fates: dict[str, list[str]] = {}
    dropped = dict(data.pooling.dropped)  # told of over all launches
    for effect in best_effects(data):
        if effect.knob in dropped or _goes_without_saying(data, effect):
            continue
        observed = ""
        if effect.verdict in (Verdict.CAPPED, Verdict.OVERRIDDEN) and effect.observed is not None:
            observed = f", came to {effect.observed}"
        why = f" ({effect.reason})" if effect.reason else ""
        fate = f"{_VERDICTS[effect.verdict]}{observed}{why}"
        fates.setdefault(fate, []).append(f"{effect.knob}={effect.asked}")
    return [f"{', '.join(names)}: {fate}" for fate, names in fates.items()]


def knob_lines(data: StudyView) -> list[str]:
    """What all launches together say of the knobs, whichever setting is the best."""
    return [
        *(wording.capped(cap) for cap in data.result.caps),
        *(wording.not_tuned(name, why) for name, why in data.pooling.dropped),
    ]


def _goes_without_saying(data: StudyView, effect: Effect) -> bool:
    """True for a knob that had one possible value, where nobody fixed it and nothing is wrong."""
    if effect.verdict in (Verdict.CAPPED, Verdict.OVERRIDDEN):
        return False
    single = {knob.name for knob in data.spec.knobs if _has_one_value(knob)}
    return effect.knob in single and effect.knob not in data.spec.fixed.as_dict()


def _has_one_value(knob: Knob) -> bool:
    return len(space.values(knob.domain)) == 1


def left_out(data: StudyView) -> list[tuple[str, str]]:
    """The knobs that are not tuned, each with the reason: before the study, and found in it."""
    return [*data.spec.left_out, *data.pooling.dropped]


def budget_lines(data: StudyView) -> list[str]:
    """What the space asks of the cores, and what is left out for asking too much."""
    return [
        line for line in (core_budget.summary(data.spec), core_budget.left_out(data.spec)) if line
    ]


def inherited(data: StudyView) -> dict[str, str]:
    """Variables of the knobs that the user's own environment set for the baseline."""
    for record in data.records:
        if record.setting.is_baseline:
            return render.inherited(record.env, data.spec.knobs)
    return {}


def failure_lines(data: StudyView) -> list[str]:
    """The reasons of failed launches, each once, with how often it came."""
    reasons = [(failed["failure"], failed["job"] is None) for failed in failures(data)]
    return [
        f"{wording.count(number, *(('launch', 'launches') if cold else ('window',)))}: {why}"
        for (why, cold), number in Counter(reasons).most_common()
    ]


def final_losses(data: StudyView) -> str:
    """What the training came to with the best setting and with the defaults, if that is told."""
    best, baseline = data.result.best, data.result.baseline
    if best is None or best.setting.is_baseline or (loss := _loss(best)) is None:
        return ""
    against = _loss(baseline) if baseline is not None else None
    if against is None:
        return f"final loss {loss:.4g}; your defaults never ran to their end (`tune profile`)"
    return f"final loss {loss:.4g}, with your defaults {against:.4g}"


def _loss(measurement: Measurement) -> float | None:
    """The median of its runs."""
    losses = [sample.loss for sample in measurement.samples if sample.loss is not None]
    return statistics.median(losses) if losses else None
