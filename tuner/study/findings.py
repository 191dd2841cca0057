"""A study's result, from its launches alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.knobs.pooling import Pooling
from tuner.launch import render
from tuner.live.eligibility import why_switched_off
from tuner.model import (
    Cap,
    ExclusionKind,
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
from tuner.stats import evidence
from tuner.store.rows import Summary
from tuner.store.urls import display_url
from tuner.study.confirmation import confirm_s, confirmation, search_s
from tuner.study.doubts import doubts, early_doubts
from tuner.study.history import History

#: What torchrun sets for its ranks (torch.distributed.run, config_from_args).
OMP = "OMP_NUM_THREADS"


def build(
    history: History, storage: str, state: StudyState, reason: str, best: Setting | None
) -> Result:
    """Return the result of these launches: this is where the best setting is decided.

    A faster baseline takes the place of what the search calls best, unless the user fixed
    something, which the baseline leaves out. Of the storage's URL only what may be shown is held.
    """
    measured = history.measurements
    baseline = measured.get(history.default)
    if best is not None:
        best = history.pooling.canonical(best)
    elif history.spec.fixed.is_baseline:
        best = history.default  # no setting works, but this may
    confirmed = None if best is None or best not in measured else confirmation(history, best)
    left_s = finding = candidate = export = conclusion = handed_over = None
    if confirmed is not None:
        left_s, candidate = confirmed.left_s, measured.get(confirmed.best)
        if confirmed.proven is not None:  # it stands, though the interval is to be narrower
            confirmed = replace(confirmed, finding=confirmed.proven, next=())
        finding = confirmed.finding
        is_over = finding is not None or state is StudyState.FINISHED
        if is_over and not confirmed.next and history.spec.confirm != "none":
            conclusion, export = confirmed.conclusion, confirmed.export(history)
            is_best = export == confirmed.best
            handed_over = history.pooling.short(export) if is_best else export
    if finding is None:
        baseline_works = confirmed is None or confirmed.failure is None
        rival = baseline if baseline_works and history.spec.fixed.is_baseline else None
        candidate = evidence.best(filter(None, (candidate, rival)))
    jobs = [r.job for r in history.records if r.job is not None]
    return Result(
        name=history.spec.name,
        storage=display_url(storage),
        state=state,
        reason=reason,
        candidate=candidate,
        baseline=baseline,
        trials=history.trials,
        launches=len(history.records),
        failures=evidence.failures(history.records),
        notes=tuple(_notes(history, candidate)),
        settings_failed=history.failed,
        settings_stopped=history.stopped,
        launches_measured=sum(bool(r.outcome.samples) for r in history.valid),
        caps=caps(history.pooling, history.records),
        conclusion=conclusion,
        finding=finding,
        export=handed_over,
        search_s=search_s(history.records),
        confirm_s=confirm_s(history.records),
        confirm_left_s=left_s,
        best_keeping=None if export == history.default else _best_keeping(history, candidate),
        objective=history.spec.objective,
        windows=len(jobs),
        jobs=len(set(jobs)),
    )


def _best_keeping(history: History, best: Measurement | None) -> Measurement | None:
    """Return the best setting that computes the same as the baseline, if ``best`` does not."""
    knobs = {knob.name: knob for knob in history.spec.knobs}

    def keeps(setting: Setting) -> bool:
        return not any(n in knobs and knobs[n].departs(value) for n, value in setting.items)

    if best is None or keeps(best.setting):
        return None
    # What could be handed over: the present space, and the baseline.
    return evidence.best(
        measurement
        for setting, measurement in history.measurements.items()
        if keeps(setting) and (history.contains(setting) or setting == history.default)
    )


def summary(result: Result) -> Summary:
    """Return the result as the list of studies has it."""
    candidate = result.candidate.setting if result.candidate else None
    stopped = result.baseline.stopped if result.baseline else None
    return Summary(
        candidate=candidate,
        best_setting=candidate if result.export is None else result.export,
        best_s=result.best.elapsed_s if result.best else None,
        baseline_s=result.baseline.elapsed_s if result.baseline else None,
        baseline_projection_s=stopped.projection_s if stopped and stopped.is_forecast else None,
        trials=result.trials,
        launches=result.launches,
        failures=result.failures,
        conclusion=result.conclusion,
        finding=result.finding,
    )


def inherited_note(spec: StudySpec, environ: dict[str, str]) -> str | None:
    """Say what the environment, or else torchrun, sets of our knobs: the baseline keeps it."""
    names = render.inherited(environ, spec.knobs)
    if names:
        texts = " ".join(f"{name}={value}" for name, value in names.items())
        return f"your environment sets {texts}: the baseline runs with it"
    if spec.launcher.kind == "torchrun" and spec.layout.ranks > 1 and OMP not in environ:
        return f"torchrun sets {OMP}=1 if nothing else does: the baseline runs with it"
    return None


def caps(pooling: Pooling, records: Sequence[LaunchRecord]) -> tuple[Cap, ...]:
    """Return the value that larger values of a knob come to, with the reason, for each capped knob.

    Of several reasons that launches gave it is the first by name.
    """
    reasons: dict[tuple[str, Value | None], str] = {}
    for record in records:
        for effect in record.outcome.effects:
            if effect.verdict is Verdict.CAPPED and not isinstance(record.outcome.ending, Failed):
                key = effect.knob, effect.observed
                reasons[key] = min(reasons.get(key, effect.reason), effect.reason)
    return tuple(Cap(name, cap, reasons.get((name, cap), "")) for name, cap in pooling.caps.items())


def early_notes(history: History) -> list[str]:
    """Return what the user should know of the study, as far as it stays true while it goes on."""
    return [*early_doubts(history), *_withdrawal_notes(history)]


def _notes(history: History, best: Measurement | None) -> list[str]:
    first = next((r for r in history.records if r.purpose is Purpose.BASELINE), None)
    inherited = inherited_note(history.spec, dict(first.env)) if first else None
    notes = [inherited] if inherited else []
    doubted = doubts(history, None if best is None else best.setting)
    return [*notes, *doubted, *_excluded(history), *_withdrawal_notes(history)]


def _withdrawal_notes(history: History) -> list[str]:
    """Return which knobs are not tuned any more, and why no setting is measured live any more."""
    dropped = [wording.not_tuned(name, reason) for name, reason in history.pooling.dropped]
    return [*dropped, *filter(None, [why_switched_off(history.records)])]


def _excluded(history: History) -> list[str]:
    """Return how many launches do not count, with the last reason."""
    exclusions = [(r.number, why) for r in history.records if (why := r.outcome.exclusion)]
    invalid = [(n, why.text) for n, why in exclusions if why.kind is not ExclusionKind.REMEASURED]
    texts = []
    if invalid:
        number, text = invalid[-1]
        last = f"{'the last one, ' if len(invalid) > 1 else ''}number {number}: {text}"
        launches = wording.count(len(invalid), "launch was", "launches were")
        texts.append(f"{launches} excluded ({last})")
    if remeasured := len(exclusions) - len(invalid):
        launches = wording.count(remeasured, "earlier launch", "earlier launches")
        texts.append(f"{launches} not counted: --remeasure")
    return texts
