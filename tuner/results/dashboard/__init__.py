"""The browser's view: optuna-dashboard on loopback, with our note and figures on each study.

Nothing is fetched from elsewhere: optuna-dashboard brings all its pages along.
"""

from tuner.results.dashboard.annotations import annotate

__all__ = ["annotate"]
