"""The end of the search as a terminator of Optuna, for any study that `RuntimeSampler` reads.

while not terminator.should_terminate(study):
    study.optimize(objective, n_trials=1)
"""

from __future__ import annotations

from optuna.study import Study
from optuna.terminator import BaseTerminator

from tuner.search.engine import Done
from tuner.search.sampler import RuntimeSampler


class RuntimeTerminator(BaseTerminator):
    """Ends a study once going on is expected to gain too little, or nothing is left to try.

    Args:
        sampler: It weighs what another trial may gain against ``min_gain``; the study may have
            another sampler.
    """

    def __init__(self, sampler: RuntimeSampler) -> None:
        self._sampler = sampler

    def should_terminate(self, study: Study) -> bool:
        """Whether the search is over.

        Raises:
            ValueError: The study has several objectives.
        """
        return isinstance(self._sampler.next(study), Done)
