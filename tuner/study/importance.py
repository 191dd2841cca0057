"""Which knobs matter: the share of each in what makes a setting fast."""

from __future__ import annotations

import warnings

import optuna

from tuner.model import Measurement
from tuner.stats import estimates
from tuner.study.history import History
from tuner.study.optuna_trials import distributions

#: Below this many settings the numbers would say more about chance than about the knobs.
FEWEST = 6

#: The share of the settings that count as fast. Optuna's own tenth would be one setting of
#: eight, and would call the knob important that tells the best two apart by noise.
FAST_SHARE = 0.5

#: Of more settings than this an even selection by rank is looked at: the shares stay the same
#: within their own uncertainty, and 2,000 settings would take a quarter of a second longer.
MOST = 500


def importance(history: History) -> dict[str, float]:
    """The share of each tuned knob in what makes a setting fast, the largest first.

    PED-ANOVA (Watanabe et al., IJCAI 2023; arXiv 2304.10255), of knobs that exist in some
    settings only by its conditional form (arXiv 2601.20800), on what our tables hold: for a
    setting that was stopped, its projection. The shares add up to 1. Empty below six
    settings with a time, or if no knob varies.
    """
    measured = [
        m
        for m in estimates.measurements(history.records, history.pooling.canonical)
        if m.typical_s is not None and history.contains(m.setting)
    ]
    varied = [
        k.name
        for k in history.knobs
        if len({m.setting.as_dict().get(k.name) for m in measured} - {None}) > 1
    ]
    if len(measured) < FEWEST or not varied:
        return {}
    return _evaluate(history, _selection(measured), varied)


def _selection(measured: list[Measurement]) -> list[Measurement]:
    """At most ``MOST`` settings, spread evenly from the fastest to the slowest."""
    ranked = sorted(measured, key=lambda m: (m.typical_s or 0.0, m.setting.to_json()))
    step = max(1.0, len(ranked) / MOST)
    return [ranked[int(place * step)] for place in range(min(MOST, len(ranked)))]


def _evaluate(history: History, measured: list[Measurement], varied: list[str]) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {name: d for name, d in distributions(history.knobs).items() if name in varied}
    study = optuna.create_study()
    study.add_trials(
        optuna.trial.create_trial(
            value=m.typical_s,
            params=(params := {k: v for k, v in m.setting.items if k in space}),
            distributions={name: space[name] for name in params},
        )
        for m in measured
    )
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=FAST_SHARE)
    with warnings.catch_warnings():
        # Of a knob that exists in few settings Optuna says that its share is inaccurate, with
        # the paths of its own code; that few say little is known of every share here.
        warnings.simplefilter("ignore", UserWarning)
        return optuna.importance.get_param_importances(study, evaluator=evaluator)
