"""The trace of a replay: one JSON line a launch, and a last line with what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from tuner.replay.study import Step, Study
from tuner.replay.surface import Key, Surface


def lines(surface: Surface, study: Study) -> Iterator[str]:
    """The lines without their ends. Times in seconds, of the virtual clock."""
    for step in study.steps:
        yield json.dumps(_launch(surface, step), allow_nan=False)
    yield json.dumps(summary(surface, study), allow_nan=False)


def _launch(surface: Surface, step: Step) -> dict[str, Any]:
    kind = {"phase": "confirm"} if step.ending is None else {"outcome": step.ending}
    return {
        "t_s": _rounded(step.t_s),
        "setting": surface.setting(step.setting),
        **kind,
        "elapsed_s": _rounded(step.elapsed_s),
        "incumbent": _setting(surface, step.incumbent),
    }


def summary(surface: Surface, study: Study) -> dict[str, Any]:
    """The last line; the upper end of an "at least" is ``null``."""
    found = study.finding
    return {
        "t_s": _rounded(study.search_s + study.confirm_s),
        "best": _setting(surface, study.best),
        "export": surface.setting(study.export),
        "ratio": _rounded(found.ratio) if found else None,
        "interval": [_rounded(found.low), _rounded(found.high)] if found else None,
        "verdict": study.verdict,
    }


def _setting(surface: Surface, key: Key | None) -> dict[str, Any] | None:
    return None if key is None else surface.setting(key)


def _rounded(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else round(number, 6)
