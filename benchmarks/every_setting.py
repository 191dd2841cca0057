"""Every setting of a study's space, launched several times: no search chooses among them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.config.spec import build_spec
from tuner.config.study_file import find_study_file
from tuner.knobs import space
from tuner.model import Failed, Purpose, Setting, StudySpec
from tuner.search.engine import Done
from tuner.stats import evidence
from tuner.study.history import History
from tuner.study.policy import Policy, Step, Stop

#: A setting that failed so often, and never worked, is one that fails. One that works now and then
#: is left alone after as many failures as it should have runs.
FAILURES = 2


@dataclass(frozen=True)
class EverySetting(Policy):
    """Launches each setting ``runs`` times for a purpose, and so each of ``others``.

    It goes round by round, in another random order each time: what drifts meets all alike.
    """

    runs: int
    purpose: Purpose
    others: tuple[Setting, ...] = ()

    def best(self, history: History) -> Setting | None:
        """Return the setting with the lowest median so far."""
        measured = history.measurements.values()
        best = evidence.best(each for each in measured if history.contains(each.setting))
        return best.setting if best else None

    def after_search(self, history: History, over: Done) -> Step | Stop:  # noqa: ARG002
        """Return the setting that comes next in the first round that is not done."""
        finished, failed = Counter[Setting](), Counter[Setting]()
        for record in history.valid:
            if record.purpose is self.purpose:
                counts = failed if isinstance(record.outcome.ending, Failed) else finished
                counts[record.canonical] += 1
        for number in range(self.runs):
            order = [*self.others, *settings(history)]
            random.Random(f"{history.spec.seed}/{number}").shuffle(order)
            for setting in order:
                most = max(FAILURES, self.runs) if finished[setting] else FAILURES
                if finished[setting] <= number and failed[setting] < most:
                    return Step(self.purpose, setting)
        return Stop(f"every setting was measured {self.runs} times")


def settings(history: History) -> Iterator[Setting]:
    """Yield every setting that differs on this machine, as far as launches have shown."""
    return space.points(history.distinct_knobs, history.requirements)


def spec_of(study: str, **options: Any) -> StudySpec:
    """Return the spec of a study file, as the command line would make it with these options."""
    file, source = find_study_file(study, cwd=Path.cwd())
    return build_spec(file=file, source=source, options=options)
