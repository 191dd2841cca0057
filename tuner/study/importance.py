"""Which knobs matter: the share of each in what makes a setting fast."""

from __future__ import annotations

import warnings

import optuna

from tuner.study.history import History
from tuner.study.trials import distributions

#: Below this many settings the numbers would say more about chance than about the knobs.
FEWEST = 6

#: The share of the settings that count as fast. Optuna's own tenth would be one setting of
#: eight, and would call the knob important that tells the best two apart by noise.
FAST_SHARE = 0.5


def importance(history: History) -> dict[str, float]:
    """Return the share of each tuned knob in what makes a setting fast, the largest first.

    PED-ANOVA (Watanabe et al., IJCAI 2023; arXiv 2304.10255), of knobs that exist in some
    settings only by its conditional form (arXiv 2601.20800), on what its launches hold: for a
    setting that was stopped, its projection. The shares add up to 1. Empty below six
    settings with a time, or if no knob varies.
    """
    measured = [
        m
        for m in history.measurements.values()
        if m.typical_s is not None and history.contains(m.setting)
    ]
    varied = [
        k.name
        for k in history.knobs
        if len({m.setting.as_dict().get(k.name) for m in measured} - {None}) > 1
    ]
    if len(measured) < FEWEST or not varied:
        return {}
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
