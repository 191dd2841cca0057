"""The loop: ask, measure, tell. Optuna is imported only when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.study.interruption import StudyInterrupted
    from tuner.study.reader import Reader
    from tuner.study.tuning import delete, tune

__all__ = ["Reader", "StudyInterrupted", "delete", "tune"]

_HOMES = {
    "Reader": "reader",
    "StudyInterrupted": "interruption",
    "delete": "tuning",
    "tune": "tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
