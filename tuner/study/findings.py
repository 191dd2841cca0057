"""A study's result, from our tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.launch import render
from tuner.live import consistency
from tuner.model import (
    Cap,
    Failed,
    LaunchRecord,
    Measurement,
    Purpose,
    Result,
    Setting,
    StudySpec,
    StudyState,
    Value,
    Verdict,
    wording,
)
from tuner.stats import estimates
from tuner.store.urls import display_url
from tuner.study import interference
from tuner.study.history import History
from tuner.study.policy import Confirmation, confirm_s, confirmation, search_s

if TYPE_CHECKING:
    from tuner.knobs.pooling import Pooling
    from tuner.store import Store, Summary

#: What torchrun sets for its ranks (torch.distributed.run, config_from_args).
OMP = "OMP_NUM_THREADS"


def result(store: Store, name: str) -> Result:
    """What a study found so far.

    Raises:
        UsageError: No such study.
    """
    row = store.load(name)
    plan = History(row.spec, tuple(store.launches(name, detail=False)), row.forgiven_until)
    return build(plan, store.url, row.state, row.reason, row.best)


def build(
    plan: History, storage: str, state: StudyState, reason: str, best: Setting | None
) -> Result:
    """The result of these launches.

    Args:
        plan: The launches.
        storage: The database's URL; the result holds of it only what may be shown.
        state: How far the study is.
        reason: Why it ended.
        best: What the search calls best; where the defaults were faster they are the best,
            unless something is fixed, which they leave out.
    """
    measured = estimates.measurements(plan.records, plan.pooling.canonical)
    by_setting = {m.setting: m for m in measured}
    baseline = by_setting.get(plan.default)
    if best is None and plan.spec.fixed.is_baseline:
        best = plan.default  # no setting works: there is nothing to prove, where these do
    proof = None if best is None or best not in by_setting else confirmation(plan, best)
    done = proof is not None and _is_done(plan, proof, state)
    shown = _best(plan, by_setting, best, proof)
    export = proof.export(plan) if proof and done else None
    jobs = [record.job for record in plan.records if record.job is not None]
    return Result(
        study=plan.spec.name,
        storage=display_url(storage),
        state=state,
        reason=reason,
        candidate=shown,
        baseline=baseline,
        reference=_reference(by_setting, baseline, proof),
        trials=plan.trials,
        launches=len(plan.records),
        failures=estimates.failures(plan.records),
        notes=tuple(_notes(plan)),
        settings_failed=plan.failed,
        settings_stopped=plan.stopped,
        launches_measured=sum(bool(r.outcome.samples) for r in estimates.counted(plan.records)),
        caps=caps(plan.pooling, plan.records),
        conclusion=proof.conclusion if proof and done else None,
        finding=proof.finding if proof else None,
        export=export,
        search_s=search_s(plan),
        confirm_s=confirm_s(plan),
        best_keeping=None if export == plan.default else _best_keeping(plan, measured, shown),
        objective=plan.spec.objective,
        windows=len(jobs),
        jobs=len(set(jobs)),
    )


def _is_done(plan: History, proof: Confirmation, state: StudyState) -> bool:
    """Whether the confirmation has come to its end."""
    ended = proof.finding is not None or state is StudyState.FINISHED
    return plan.spec.confirm and proof.next is None and ended


def _reference(
    by_setting: Mapping[Setting, Measurement],
    baseline: Measurement | None,
    proof: Confirmation | None,
) -> Measurement | None:
    """What the best is held against."""
    if proof is not None and proof.reference is not None:
        return by_setting.get(proof.reference)
    return baseline if baseline is not None and baseline.elapsed_s is not None else None


def _best(
    plan: History,
    by_setting: Mapping[Setting, Measurement],
    best: Setting | None,
    proof: Confirmation | None,
) -> Measurement | None:
    """What the search calls best, or the defaults where they were measured to be faster."""
    found = by_setting.get(best) if best is not None else None
    baseline = by_setting.get(plan.default) if plan.spec.fixed.is_baseline else None
    if proof is not None and proof.finding is not None:
        return found
    return estimates.best(m for m in (found, baseline) if m is not None)


def _best_keeping(
    plan: History, measured: Sequence[Measurement], best: Measurement | None
) -> Measurement | None:
    """The best setting that computes the same as the defaults, where ``best`` does not."""
    knobs = {knob.name: knob for knob in plan.spec.knobs}

    def keeps(setting: Setting) -> bool:
        return not any(name in knobs and knobs[name].departs(v) for name, v in setting.items)

    if best is None or keeps(best.setting):
        return None
    return estimates.best(m for m in measured if keeps(m.setting) and _is_offered(plan, m.setting))


def _is_offered(plan: History, setting: Setting) -> bool:
    """True for what could be handed over: the present space, and the defaults."""
    return plan.contains(setting) or setting == plan.default


def summary(found: Result) -> Summary:
    """The result as the list of studies has it."""
    from tuner.store.rows import Summary

    return Summary(
        best_setting=found.candidate.setting if found.candidate else None,
        best_s=found.candidate.elapsed_s if found.candidate else None,
        baseline_s=found.baseline.elapsed_s if found.baseline else None,
        trials=found.trials,
        launches=found.launches,
        failures=found.failures,
        conclusion=found.conclusion,
        finding=found.finding,
    )


def inherited_note(spec: StudySpec, environ: dict[str, str]) -> str | None:
    """What the user's environment, or else torchrun, sets of our knobs: the baseline keeps it."""
    names = render.inherited(environ, spec.knobs)
    if names:
        texts = " ".join(f"{name}={value}" for name, value in names.items())
        return f"your environment sets {texts}: the baseline runs with it"
    if spec.launcher.kind == "torchrun" and spec.layout.ranks > 1 and OMP not in environ:
        return f"torchrun sets {OMP}=1 where nothing else does: the baseline runs with it"
    return None


def caps(pooling: Pooling, records: Sequence[LaunchRecord]) -> tuple[Cap, ...]:
    """What larger values of a knob come to, whichever setting is the best.

    Why, say the launches that came to just that; of several reasons the first by name.
    """
    reasons: dict[tuple[str, Value | None], str] = {}
    for record in records:
        for effect in record.outcome.effects:
            if effect.verdict is Verdict.CAPPED and not isinstance(record.outcome.ending, Failed):
                key = effect.knob, effect.observed
                reasons[key] = min(reasons.get(key, effect.reason), effect.reason)
    return tuple(Cap(name, cap, reasons.get((name, cap), "")) for name, cap in pooling.caps.items())


def _notes(plan: History) -> Sequence[str]:
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
    notes += interference.notes(plan)
    notes += consistency.notes(plan.records, plan.pooling.canonical)
    return notes


def dropped_notes(plan: History) -> list[str]:
    """Which knobs are not tuned any more, and why."""
    return [wording.not_tuned(name, reason) for name, reason in plan.pooling.dropped]
