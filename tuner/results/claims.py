"""What a study's result says, in words: never more than was proven. Pure: no printing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.model import Conclusion, Finding, Finished, Measurement, Purpose, Result, Stopped
from tuner.model.figures import Words, shown, stopped, words
from tuner.model.wording import count, duration, failure, seconds, times

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView
    from tuner.study.fewest import Contribution


def runs(best: Measurement, other: Measurement) -> str:
    """How many runs a comparison rests on."""
    a, b = len(best.samples), len(other.samples)
    if a == b == 1:
        return "1 run each"
    return f"medians of {a} runs each" if a == b else f"medians of {a} and {b} runs"


def comparison(result: Result) -> str:
    """What the best setting is against the reference, with what it rests on.

    Never more than was proven: before the confirmation these are medians of a few runs.
    """
    best, reference = result.candidate, result.reference
    if best is None or best.elapsed_s is None:
        failed = result.baseline.failure if result.baseline else None
        return f"your defaults failed ({failure(failed)})" if failed else result.reason
    if result.conclusion is not None:
        return _concluded(result)
    objective = result.objective
    time = shown(objective, best.elapsed_s)
    if reference is None or reference.elapsed_s is None or result.ratio is None:
        return f"{time}; {_not_compared(result)}"
    if best.setting == reference.setting:
        return f"{time}; {_nothing_faster(result)}"
    return (
        f"{_how_good(result.ratio, words(objective))} {_reference_name(result)} ({time} against"
        f" {shown(objective, reference.elapsed_s)}, {runs(best, reference)}; not confirmed)"
    )


def _not_compared(result: Result) -> str:
    """Said where what the best would be compared with has no time."""
    reference = result.reference or result.baseline
    if reference is None or reference.stopped is None:
        return "there is nothing to compare it with"
    return f"your defaults were {stopped(result.objective, reference.stopped)}; not confirmed"


def _concluded(result: Result) -> str:
    """What the launches of the comparison show."""
    finding, said = result.finding, words(result.objective)
    if result.conclusion is Conclusion.BASELINE_FAILS:
        failed = result.baseline.failure if result.baseline else None
        why = "your defaults failed when they were launched again"  # they worked in the search
        if failed is not None:
            why = f"your defaults fail ({failure(failed)})"
        if finding is None or result.reference is None:
            return f"{why}; {_not_pursued(result)}"
        guess = f"the first guess that worked, {result.reference.setting}"
        if finding.claim == "faster":
            return f"{why}; {_faster(result, finding, guess)}"
        return (
            f"{why}; {finding.claim} against {guess} ({_interval(finding, said)}{_more(finding)})"
        )
    if finding is not None and result.conclusion is Conclusion.FASTER:
        return _faster(result, finding, "your defaults")
    kept = result.baseline is None or result.export in (None, result.baseline.setting)
    verdict = f"{result.conclusion}: keep" if kept else f"{result.conclusion} against"
    if finding is not None and finding.claim == "slower":
        verdict = f"nothing is {said.better}{': keep' if kept else ' than'}"
    if finding is None:
        return f"{verdict} your defaults; {_not_pursued(result)}"
    return f"{verdict} your defaults ({_interval(finding, said)}{_more(finding)})"


def _not_pursued(result: Result) -> str:
    """Why the launches of the comparison came to nothing, or were not made."""
    best, reference, said = result.candidate, result.reference, words(result.objective)
    if reference is None:
        return "they were not launched"
    if best is not None and best.setting != reference.setting:
        return "the best setting failed when it was launched again"
    others = result.trials - (not _is_baseline(result))
    if others < 1 and not _is_baseline(result):
        return "there is nothing to compare with"
    return _others_not_better(others, result.settings_failed, said)


def _faster(result: Result, finding: Finding, than: str) -> str:
    """A proven gain: no more than the interval says; beside a bound, what the search saw."""
    said = words(result.objective)
    if finding.high is None:
        gain = f"at least {rounded_down(finding.low)} times {said.better} than {than}"
        return f"{gain} (95 % sure, {_launched(finding)}{_beside_bound(result, finding.low)})"
    gain = f"{finding.ratio:.2f} times {said.better} than {than}"
    return f"{gain} (95 % interval {_span(finding)}, {_launched(finding)})"


def _beside_bound(result: Result, low: float) -> str:
    """What the launches show beside a bound that is proven, if that is more."""
    if result.ratio:
        return f"; {result.ratio:.1f} times by the medians"
    best, reference = result.candidate, result.reference
    stop = None if reference is None else reference.stopped
    if best is None or not best.elapsed_s or stop is None or not stop.is_forecast:
        return ""
    projected = stop.projection_s / best.elapsed_s
    return f"; projected: {projected:.1f} times" if projected > low else ""


def _interval(finding: Finding, said: Words) -> str:
    """A ratio that proves no gain."""
    if finding.high is None:
        low = rounded_down(finding.low)
        return f"at least {low} times as {said.good}, 95 % sure, {_launched(finding)}"
    ratio = f"{finding.ratio:.2f} times as {said.good}"
    return f"{ratio}, 95 % interval {_span(finding)}, {_launched(finding)}"


def _more(finding: Finding) -> str:
    """What would tell, if a result is inconclusive."""
    if finding.claim != "inconclusive":
        return ""
    if finding.pairs_missing is None:
        return "; it is too small to be told beside the noise of these runs"
    pairs = count(finding.pairs_missing, "more pair")
    return f"; about {pairs} may tell: the same command with --confirm more"


def _span(finding: Finding) -> str:
    return f"{finding.low:.2f} to {finding.high:.2f}"


def _launched(finding: Finding) -> str:
    """How often both were launched, and how: ``6 pairs side by side``, ``3 pairs in turn``."""
    return f"{count(finding.pairs, 'pair')} {how_compared(finding)}"


def how_compared(finding: Finding) -> str:
    """Say which way a verdict was made."""
    return "side by side" if finding.is_side_by_side else "in turn"


def rests_on(data: StudyView) -> str:
    """The launches that prove the verdict, and how they ran; empty if nothing is proven.

    ``launches 8, 9, 10, 11``, ``launches 8, 9, in pairs side by side (50 slices)``.
    """
    finding, reference = data.result.finding, data.result.reference
    if finding is None or reference is None:
        return ""
    canonical = data.pooling.canonical
    usable = [r for r in data.records if isinstance(r.outcome.ending, Finished | Stopped)]
    usable = [r for r in usable if r.outcome.exclusion is None]
    searched = [
        r.number for r in usable if r.purpose.stage.is_evidence and r.purpose is not Purpose.CONFIRM
    ]
    begins = max(searched, default=0)
    compared = [
        r
        for r in usable
        if r.purpose is Purpose.CONFIRM
        and r.number > begins
        and (r.outcome.side_by_side is not None) is finding.is_side_by_side
    ]
    is_reference = {r.number: canonical(r.setting) == reference.setting for r in compared}
    sides = (
        [r.number for r in compared if is_reference[r.number] is side] for side in (True, False)
    )
    numbers = sorted(number for side in sides for number in side[: finding.pairs])
    launches = f"launches {', '.join(map(str, numbers))}"
    if not finding.is_side_by_side:
        return f"{launches}, in turn"
    together = (r.outcome.side_by_side for r in compared if r.number in numbers)
    slices = sum(len(pair.slices) for pair in together if pair is not None)
    number = f" ({count(slices, 'slice')})" if slices else ""
    return f"{launches}, in pairs side by side{number}"


def gain(conclusion: Conclusion | None, finding: Finding | None, ratio: float | None) -> str:
    """A study's gain in a table: ``2.31x (2.24 to 2.39)``; ``2.31x?`` of mere medians.

    Args:
        conclusion: What the study came to; ``None``: it was not confirmed.
        finding: What the launches of its comparison prove.
        ratio: Of the medians.
    """
    if conclusion is None:
        return f"{times(ratio)}?" if ratio is not None else ""
    if conclusion is Conclusion.BASELINE_FAILS:
        return "defaults fail"
    if conclusion is Conclusion.INCONCLUSIVE:
        return "inconclusive"
    if conclusion is Conclusion.NO_GAIN or finding is None:
        return "no gain"
    if finding.high is None:
        return f">= {rounded_down(finding.low)}x"
    return f"{times(finding.ratio)} ({_span(finding)})"


def rounded_down(ratio: float) -> str:
    """Write a bound, never rounded up: with two decimals below 10, one below 100, else none."""
    decimals = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{int(ratio * 10**decimals + 1e-9) / 10**decimals:.{decimals}f}"


def measured(result: Result) -> str:
    """``9 settings measured``, ``9 settings tried (6 stopped early, 1 failed)``."""
    settings = count(result.trials, "setting")
    if not (result.settings_failed or result.settings_stopped):
        return f"{settings} measured"
    parts = []
    if result.settings_stopped:
        parts.append(f"{result.settings_stopped} stopped early")
    if result.settings_failed:
        parts.append(f"{result.settings_failed} failed")
    return f"{settings} tried ({', '.join(parts)})"


def launch_count(result: Result) -> str:
    """``9 launches``, ``34 windows of 2 jobs and 9 launches``."""
    own = count(result.launches - result.windows, "launch", "launches")
    if not result.windows:
        return own
    windows = f"{count(result.windows, 'window')} of {count(result.jobs, 'job')}"
    return f"{windows} and {own}" if result.launches > result.windows else windows


#: Beyond this factor either way an interval does not say that there is no effect.
_UNCLEAR = 1.1


def contribution(contributed: Contribution, precision: float) -> str:
    """``3.01 times (2.84 to 3.20)``, ``no effect seen (0.98 to 1.03)``, ``not clear …``.

    Args:
        contributed: Of one knob of the best setting, or of one that it leaves as it is.
        precision: Less than this share is no effect.
    """
    if contributed.high is None:
        return f"at least {rounded_down(contributed.low)} times"
    interval = f"({contributed.low:.2f} to {contributed.high:.2f})"
    if contributed.low > 1 + precision or contributed.high < 1 / (1 + precision):
        by = "" if contributed.was_launched else ", by the model"
        return f"{contributed.ratio:.2f} times {interval}{by}"
    if contributed.low > 1 / _UNCLEAR and contributed.high < _UNCLEAR:
        return f"no effect seen {interval}"
    if contributed.was_launched:
        return f"not clear {interval}"
    return "not known: no launch left out only this knob"


def _nothing_faster(result: Result) -> str:
    """Said where the best setting is what the others are compared with."""
    of_settings = result.reference is not None and not _is_baseline(result)
    said = _others_not_better(
        result.trials - of_settings, result.settings_failed, words(result.objective)
    )
    failed = result.baseline.failure if result.baseline else None
    return f"{said}; your defaults failed ({failure(failed)})" if failed and of_settings else said


def _others_not_better(others: int, failed: int, said: Words) -> str:
    """A setting that failed is not called slow: it has no time."""
    measured = others - failed
    if others < 1:
        return "no other setting was tried"
    if measured < 1:
        return f"no other setting could be measured ({failed} failed)"
    if failed:
        number = count(measured, "other measured setting")
        return f"none of {number} was {said.better} ({count(failed, 'other')} failed)"
    if others == 1:
        return f"the one other setting was not {said.better}"
    return f"none of {others} other settings was {said.better}"


def _how_good(ratio: float, said: Words) -> str:
    """A ratio in words; no difference is claimed where two decimals show none."""
    if f"{ratio:.2f}" == "1.00" or f"{1 / ratio:.2f}" == "1.00":
        return f"as {said.good} as"
    if ratio > 1:
        return f"{ratio:.2f} times {said.better} than"
    return f"{1 / ratio:.2f} times {said.worse} than"


def _is_baseline(result: Result) -> bool:
    """True if the best is compared with the defaults."""
    reference, baseline = result.reference, result.baseline
    return reference is not None and baseline is not None and reference == baseline


def _reference_name(result: Result) -> str:
    """The reference by name; if the baseline fails it is the first guess that worked."""
    reference, baseline = result.reference, result.baseline
    if reference is None or _is_baseline(result):
        return "your defaults"
    failed = baseline.failure if baseline is not None else None
    why = f", as your defaults failed ({failure(failed)})" if failed is not None else ""
    return f"{reference.setting}, the first guess that worked{why}"


@dataclass(frozen=True)
class BreakEven:
    """What the study cost, what is saved, and after how many of these it has paid.

    ``unit`` is an ``epoch`` where the program's log tells of epochs, else a ``run`` like those
    measured; ``at_least`` if only a lower end of the saving is proven.
    """

    cost_s: float
    saved_s: float
    unit: str
    units: int
    at_least: bool

    def __str__(self) -> str:
        """``the tuning took 6 min; an epoch saves 12.3 s: break-even after 30 epochs``."""
        what = "an epoch" if self.unit == "epoch" else "a run as measured"
        least, most = ("at least ", "at most ") if self.at_least else ("", "")
        return (
            f"the tuning took {duration(self.cost_s)}; {what} saves {least}{seconds(self.saved_s)}:"
            f" break-even after {most}{count(self.units, self.unit)}"
        )


def break_even(result: Result) -> BreakEven | None:
    """The break-even of a study that found something faster; ``None`` for any other.

    The saving is the best's median time of a run (of a steady state: of all its iterations)
    times the proven ratio minus 1 (the estimate, or the lower end if only that is claimed).
    A figure that is not a time of the run tells of no saving, a time that is read by a pattern
    neither: nobody knows what it is the time of.
    """
    finding, best, clock = result.finding, result.best, result.objective.clock
    if result.conclusion is not Conclusion.FASTER or finding is None or best is None:
        return None
    if best.elapsed_s is None or clock == "none":
        return None
    ratio = finding.low if finding.at_least else finding.ratio
    run_s = best.elapsed_s * (best.samples[-1].iterations if clock == "steady" else 1)
    saved_s, unit = run_s * (ratio - 1), "run"
    epochs = best.samples[-1].epochs
    if epochs:
        saved_s, unit = saved_s / epochs, "epoch"
    cost_s = result.search_s + result.confirm_s
    return BreakEven(cost_s, saved_s, unit, math.ceil(cost_s / saved_s), finding.at_least)
