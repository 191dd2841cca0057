"""A study's result, from our tables alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner import render, stats, wording
from tuner.model import (
    BASELINE,
    Cap,
    Failed,
    Finished,
    LaunchRecord,
    Measurement,
    Purpose,
    Result,
    Setting,
    StudySpec,
    StudyState,
    Value,
    Verdict,
)
from tuner.store.urls import display_url
from tuner.study.plan import Plan

if TYPE_CHECKING:
    from tuner.pooling import Pooling
    from tuner.store import Store, Summary


def result(store: Store, name: str) -> Result:
    """What a study found so far.

    Raises:
        UsageError: No such study.
    """
    row = store.load(name)
    plan = Plan(row.spec, tuple(store.launches(name, detail=False)), row.forgiven_until)
    return build(plan, store.url, row.state, row.reason)


def build(plan: Plan, storage: str, state: StudyState, reason: str) -> Result:
    """The result of these launches; of the database's URL only what may be shown.

    The best is the fastest setting that the present spec allows; the baseline counts as one
    unless something is fixed, which it cannot be.
    """
    measured = stats.measurements(plan.records, plan.pooling.canonical)
    by_setting = {m.setting: m for m in measured}
    baseline = by_setting.get(BASELINE)
    reference = _reference(plan, by_setting)
    return Result(
        study=plan.spec.name,
        storage=display_url(storage),
        state=state,
        reason=reason,
        best=stats.best(m for m in measured if _eligible(plan, m.setting)),
        baseline=baseline,
        reference=reference,
        trials=plan.trials,
        launches=len(plan.records),
        failures=stats.failures(plan.records),
        notes=tuple(_notes(plan)),
        settings_failed=plan.failed,
        launches_measured=sum(bool(r.outcome.samples) for r in stats.counted(plan.records)),
        caps=caps(plan.pooling, plan.records),
    )


def summary(found: Result) -> Summary:
    """The result as the list of studies has it."""
    from tuner.store.rows import Summary

    return Summary(
        best_setting=found.best.setting if found.best else None,
        best_s=found.best.elapsed_s if found.best else None,
        baseline_s=found.baseline.elapsed_s if found.baseline else None,
        trials=found.trials,
        launches=found.launches,
        failures=found.failures,
    )


def inherited_note(spec: StudySpec, environ: dict[str, str]) -> str | None:
    """What the user's environment sets of our knobs: the baseline keeps it."""
    names = render.inherited(environ, spec.knobs)
    if not names:
        return None
    texts = " ".join(f"{name}={value}" for name, value in names.items())
    return f"your environment sets {texts}: the baseline runs with it"


def caps(pooling: Pooling, records: Sequence[LaunchRecord]) -> tuple[Cap, ...]:
    """What larger values of a knob come to, whichever setting is the best.

    Why, say the launches that came to just that; of several reasons the first by name.
    """
    reasons: dict[tuple[str, Value | None], str] = {}
    for record in records:
        for effect in record.outcome.effects:
            if effect.verdict is Verdict.CAPPED and isinstance(record.outcome.ending, Finished):
                key = effect.knob, effect.observed
                reasons[key] = min(reasons.get(key, effect.reason), effect.reason)
    return tuple(Cap(name, cap, reasons.get((name, cap), "")) for name, cap in pooling.caps.items())


def _eligible(plan: Plan, setting: Setting) -> bool:
    if setting.is_baseline:
        return plan.spec.fixed.is_baseline
    return plan.contains(setting)


def _reference(plan: Plan, by_setting: dict[Setting, Measurement]) -> Measurement | None:
    """The baseline, or the first setting that worked where the baseline fails."""
    baseline = by_setting.get(BASELINE)
    if baseline is not None and baseline.elapsed_s is not None:
        return baseline
    if baseline is None:
        return None
    worked = (
        by_setting[plan.pooling.canonical(record.setting)]
        for record in stats.counted(plan.records)
        if record.outcome.samples
    )
    return next(worked, None)


def _notes(plan: Plan) -> Sequence[str]:
    notes = []
    first = next((r for r in plan.records if r.purpose is Purpose.BASELINE), None)
    inherited = inherited_note(plan.spec, dict(first.env)) if first else None
    if inherited:
        notes.append(inherited)
    if plan.outside:
        notes.append(
            f"{plan.outside} of the settings tried before are outside of what is asked for now:"
            " they are not compared"
        )
    notes += dropped_notes(plan)
    notes += plan.pooling.notes
    return notes


def dropped_notes(plan: Plan) -> list[str]:
    """Which knobs are not tuned any more, and why."""
    return [wording.not_tuned(name, reason) for name, reason in plan.pooling.dropped]


def first_failure(records: Sequence[LaunchRecord]) -> tuple[LaunchRecord, Failed] | None:
    """The first launch that failed of itself, with its failure."""
    for record in stats.counted(records):
        if isinstance(record.outcome.ending, Failed):
            return record, record.outcome.ending
    return None
