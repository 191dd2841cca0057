"""The trace of a replay: one JSON line a launch, and a last line with what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.replay.study import Launched, Study
from tuner.model import Failed, Finished, Purpose, Setting


def lines(study: Study) -> Iterator[str]:
    """The lines without their ends. Times in seconds, of the virtual clock."""
    for launched in study.launches:
        yield json.dumps(_launch(launched), allow_nan=False)
    yield json.dumps(summary(study), allow_nan=False)


def _launch(launched: Launched) -> dict[str, Any]:
    ending = launched.record.outcome.ending
    kind: dict[str, Any] = {"phase": "confirm"}
    if launched.record.purpose is not Purpose.CONFIRM:
        outcomes = {Finished: "finished", Failed: "failed"}
        kind = {"outcome": outcomes.get(type(ending), "killed")}
    window = launched.record.outcome.window
    if window is not None:
        kind["job"] = window.job
    return {
        "t_s": _rounded(launched.t_s),
        "setting": launched.record.setting.as_dict(),
        **kind,
        "elapsed_s": _rounded(elapsed_s(launched)),
        "incumbent": _values(launched.incumbent),
    }


def elapsed_s(launched: Launched) -> float | None:
    """The time of a launch; of a stopped one how long it had run for certain."""
    ending = launched.record.outcome.ending
    if isinstance(ending, Failed):
        return None
    return ending.elapsed_s if isinstance(ending, Finished) else ending.bound_s


def summary(study: Study) -> dict[str, Any]:
    """The last line; of an "at least" the ratio and the upper end are ``null``."""
    found = study.finding
    return {
        "t_s": _rounded(study.launches[-1].t_s if study.launches else 0.0),
        "best": _values(study.best),
        "export": _values(study.export),
        "ratio": None if found is None or found.at_least else _rounded(found.ratio),
        "interval": [_rounded(found.low), _rounded(found.high)] if found else None,
        "verdict": study.conclusion.value,
    }


def _values(setting: Setting | None) -> dict[str, Any] | None:
    return None if setting is None else setting.as_dict()


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)
