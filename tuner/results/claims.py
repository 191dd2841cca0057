"""Puts a study's result into words that claim no more than was proven. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tuner.model import Conclusion, Finding, Measurement, Result, price
from tuner.model.figures import shown, stopped, words
from tuner.model.wording import count, duration, failure, seconds, times
from tuner.stats.scaling import SpeedUp

if TYPE_CHECKING:
    from tuner.study.fewest import Contribution


def comparison(result: Result) -> str:
    """Say what the best setting is against the baseline, and what launches show it.

    Without a confirmation these are medians of a few runs.
    """
    best, baseline, objective = result.candidate, result.baseline, result.objective
    cause = baseline.failure if baseline else None
    if best is None or best.elapsed_s is None:
        return f"your defaults failed ({failure(cause)})" if cause else result.reason
    if result.conclusion is not None:
        return _conclusion(result)
    time = shown(objective, best.elapsed_s)
    if cause:
        return f"{time}; your defaults failed ({failure(cause)})"
    if baseline is None or baseline.elapsed_s is None:
        why = "there is nothing to compare it with"
        if baseline is not None and baseline.stopped is not None:
            why = f"your defaults were {stopped(objective, baseline.stopped)}; not confirmed"
        return f"{time}; {why}"
    if best.setting == baseline.setting:
        return f"{time}; {_none_better(result)}"
    return (
        f"{_ratio_in_words(result)} your defaults ({time} against"
        f" {shown(objective, baseline.elapsed_s)}, {_run_counts(best, baseline)}; not confirmed)"
    )


def _run_counts(best: Measurement, other: Measurement) -> str:
    """Say how many runs a comparison rests on."""
    a, b = len(best.samples), len(other.samples)
    if a == b == 1:
        return "1 run each"
    return f"medians of {a} runs each" if a == b else f"medians of {a} and {b} runs"


def _ratio_in_words(result: Result) -> str:
    """Put the ratio of the medians into words: no difference if two decimals show none."""
    ratio, (better, worse, good) = result.ratio or 1.0, words(result.objective)
    if f"{ratio:.2f}" == "1.00" or f"{1 / ratio:.2f}" == "1.00":
        return f"as {good} as"
    return (
        f"{ratio:.2f} times {better} than" if ratio > 1 else f"{1 / ratio:.2f} times {worse} than"
    )


def _conclusion(result: Result) -> str:
    """Say what the launches of the comparison show."""
    finding, better = result.finding, words(result.objective).better
    if result.conclusion is Conclusion.BASELINE_FAILS:
        cause = result.baseline.failure if result.baseline else None
        why = "your defaults failed when they were launched again"  # they worked in the search
        if cause is not None:
            why = f"your defaults fail ({failure(cause)})"
        return f"{why}: there is nothing to compare the best setting with"
    if finding is not None and result.conclusion is Conclusion.FASTER:
        return _proven_gain(result, finding)
    is_kept = result.baseline is None or result.export in (None, result.baseline.setting)
    verdict = f"{result.conclusion}: keep" if is_kept else f"{result.conclusion} against"
    if finding is not None and finding.claim == "slower":
        verdict = f"nothing is {better}: keep" if is_kept else f"nothing is {better} than"
    if finding is None:
        return f"{verdict} your defaults; {_why_not_compared(result)}"
    return f"{verdict} your defaults ({_unproven_gain(result, finding)})"


def _why_not_compared(result: Result) -> str:
    """Say why there is no finding: a side failed in the comparison, or was never launched."""
    best, baseline = result.candidate, result.baseline
    if baseline is None:
        return "they were not launched"
    if best is not None and best.setting != baseline.setting:
        return "the best setting failed when it was launched again"
    return _none_better(result)


def _none_better(result: Result) -> str:
    """Say that no setting was better than the defaults, without calling failures slow."""
    settings = result.trials
    if settings < 1:
        return "no other setting was tried"
    failures = f", {result.settings_failed} failed" if result.settings_failed else ""
    return f"no other setting was {words(result.objective).better} ({settings} tried{failures})"


def _proven_gain(result: Result, finding: Finding) -> str:
    """State a proven gain: the ratio with its interval, or the lower bound."""
    better = words(result.objective).better
    if finding.high is None:
        gain = f"at least {rounded_down(finding.low)} times {better} than your defaults"
        return f"{gain} (95 % sure, {_pairs(finding)})"
    gain = f"{finding.ratio:.2f} times {better} than your defaults"
    return f"{gain} (95 % interval {_span(finding)}, {_pairs(finding)})"


def _unproven_gain(result: Result, finding: Finding) -> str:
    """State a ratio that proves no gain; if it is inconclusive, with what would settle it."""
    good, outlook = words(result.objective).good, ""
    if finding.claim == "inconclusive" and finding.pairs_missing is None:
        outlook = "; it is too small to be told beside the noise of these runs"
    elif finding.claim == "inconclusive":
        pairs = count(finding.pairs_missing or 0, "more pair")
        outlook = f"; about {pairs} may tell: the same command with --confirm more"
    ratio, interval = ratio_and_interval(SpeedUp.of(finding), ".2f")
    sure = f"95 % interval {interval}" if interval and finding.high else interval or "95 % sure"
    return f"{ratio} times as {good}, {sure}, {_pairs(finding)}{outlook}"


def _span(finding: Finding) -> str:
    return f"{finding.low:.2f} to {finding.high:.2f}"


def _pairs(finding: Finding) -> str:
    """Say how many pairs were launched, and how: ``6 pairs side by side``, ``3 pairs in turn``."""
    return f"{count(finding.pairs, 'pair')} {how_compared(finding)}"


def how_compared(finding: Finding) -> str:
    """Say how the two launches of a pair were run."""
    return "side by side" if finding.is_side_by_side else "in turn"


def gain(conclusion: Conclusion | None, finding: Finding | None, ratio: float | None) -> str:
    """Return a study's gain for a table: ``2.31x (2.24 to 2.39)``; ``2.31x?`` of mere medians.

    ``conclusion`` is ``None`` if the study was not confirmed; ``ratio`` is that of the medians.
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


def times_as_fast(gain: SpeedUp, form: str = ".3g") -> str:
    """Say how many times as fast: ``1.62 (1.55 to 1.70)``; a ratio of 1 to itself is certain."""
    if gain == (1, 1, 1):
        return f"{gain.ratio:{form}}"
    ratio, interval = ratio_and_interval(gain, form)
    return f"{ratio} ({interval})" if interval else ratio


def ratio_and_interval(gain: SpeedUp, form: str) -> tuple[str, str]:
    """Return ``1.62`` and ``1.55 to 1.70``; of a bound only that, ``at least 1.55``."""
    ratio, low, high = (f"{value:{form}}" for value in gain)
    if math.isinf(gain.high):
        least = f"{math.floor(100 * gain.low)}%" if form.endswith("%") else rounded_down(gain.low)
        if float(least.removesuffix("%")):
            return f"at least {least}", ""
        return ratio, "too few runs that agree for an interval"
    return (ratio, f"{low} to {high}") if gain.low else (f"at most {high}", "")


def rounded_down(ratio: float) -> str:
    """Write a bound, never rounded up: with two decimals below 10, one below 100, else none."""
    decimals = 2 if ratio < 10 else 1 if ratio < 100 else 0  # 1e-9: 1.15 * 100 is below 115
    return f"{int(ratio * 10**decimals + 1e-9) / 10**decimals:.{decimals}f}"


def measured(result: Result) -> str:
    """Say how many settings were tried: ``9 settings tried (6 stopped early, 1 failed)``."""
    numbers = {"stopped early": result.settings_stopped, "failed": result.settings_failed}
    parts = [f"{number} {what}" for what, number in numbers.items() if number]
    settings = count(result.trials, "setting")
    return f"{settings} tried ({', '.join(parts)})" if parts else f"{settings} measured"


def launch_count(result: Result) -> str:
    """Say how many launches there were: ``34 windows of 2 jobs and 9 launches``."""
    launches = count(result.launches - result.windows, "launch", "launches")
    if not result.windows:
        return launches
    windows = f"{count(result.windows, 'window')} of {count(result.jobs, 'job')}"
    return f"{windows} and {launches}" if result.launches > result.windows else windows


#: An interval beyond this factor, up or down, is too wide to say that there is no effect.
_UNCLEAR = 1.1


def contribution(contributed: Contribution, precision: float) -> str:
    """Say what a knob alone contributes: ``3.01 times (2.84 to 3.20)``, ``no effect seen …``.

    Less than the share ``precision`` counts as no effect.
    """
    if contributed.high is None:
        return f"at least {rounded_down(contributed.low)} times"
    interval = f"({contributed.low:.2f} to {contributed.high:.2f})"
    if contributed.low > 1 + precision or contributed.high < 1 / (1 + precision):
        source = "" if contributed.was_launched else ", by the model"
        return f"{contributed.ratio:.2f} times {interval}{source}"
    if contributed.low > 1 / _UNCLEAR and contributed.high < _UNCLEAR:
        return f"no effect seen {interval}"
    if contributed.was_launched:
        return f"not clear {interval}"
    return "not known: no launch left out only this knob"


def break_even(result: Result) -> str:
    """Say after how many runs the study has paid; empty if nothing faster is proven.

    The saving is the best's median time of a run (of a steady state: of all its iterations) times
    the ratio minus 1, as measured, or as far as it is proven if only a lower bound is. A figure
    that is not a time of the run tells of no saving.
    ``the tuning took 6 min; an epoch saves 12.3 s: break-even after 30 epochs``.
    """
    ratio, best, clock = price.proven(result), result.best, result.objective.clock
    if ratio is None or best is None or best.elapsed_s is None or clock == "none":
        return ""
    last = best.samples[-1]
    saved_s = best.elapsed_s * (last.iterations if clock == "steady" else 1) * (ratio - 1)
    saved_s /= last.epochs or 1
    cost_s = result.search_s + result.confirm_s
    what, unit = ("an epoch", "epoch") if last.epochs else ("a run as measured", "run")
    is_bound = result.finding is not None and result.finding.at_least
    least, most = ("at least ", "at most ") if is_bound else ("", "")
    return (
        f"the tuning took {duration(cost_s)}; {what} saves {least}{seconds(saved_s)}:"
        f" break-even after {most}{count(math.ceil(cost_s / saved_s), unit)}"
    )
