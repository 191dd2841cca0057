"""The nouns of the tool: frozen values that every other module passes around.

Nothing here has an effect or imports anything but the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.model.host import (
        LauncherInfo,
        Layout,
        Machine,
    )
    from tuner.model.knobs import (
        BASELINE,
        OFF,
        ON,
        UNSET,
        Choice,
        Domain,
        Env,
        Flag,
        IntRange,
        Knob,
        LauncherOption,
        Route,
        Setting,
        Value,
        When,
    )
    from tuner.model.objective import (
        CLOCK,
        LOGGED_TIME,
        TIME_UNITS_S,
        Clock,
        ObjectiveSpec,
    )
    from tuner.model.outcome import (
        FROM_OUTSIDE,
        SHORTAGES,
        Effect,
        Ending,
        Exclusion,
        ExclusionKind,
        Failed,
        FailureKind,
        Finished,
        LaunchRecord,
        Load,
        Observation,
        Outcome,
        Progress,
        Purpose,
        RankView,
        Sample,
        Stopped,
        Verdict,
        Window,
    )
    from tuner.model.spec import (
        Launch,
        Live,
        StudySpec,
    )
    from tuner.model.study import (
        Cap,
        Claim,
        Conclusion,
        Finding,
        JsonDict,
        Measurement,
        Result,
        StudyState,
    )
    from tuner.model.telemetry import (
        HOST_COLUMNS,
        PHASES,
        RANK_COLUMNS,
        PhaseShare,
        Telemetry,
        Track,
    )

__all__ = [
    "BASELINE",
    "CLOCK",
    "FROM_OUTSIDE",
    "HOST_COLUMNS",
    "LOGGED_TIME",
    "OFF",
    "ON",
    "PHASES",
    "RANK_COLUMNS",
    "SHORTAGES",
    "TIME_UNITS_S",
    "UNSET",
    "Cap",
    "Choice",
    "Claim",
    "Clock",
    "Conclusion",
    "Domain",
    "Effect",
    "Ending",
    "Env",
    "Exclusion",
    "ExclusionKind",
    "Failed",
    "FailureKind",
    "Finding",
    "Finished",
    "Flag",
    "IntRange",
    "JsonDict",
    "Knob",
    "Launch",
    "LaunchRecord",
    "LauncherInfo",
    "LauncherOption",
    "Layout",
    "Live",
    "Load",
    "Machine",
    "Measurement",
    "ObjectiveSpec",
    "Observation",
    "Outcome",
    "PhaseShare",
    "Progress",
    "Purpose",
    "RankView",
    "Result",
    "Route",
    "Sample",
    "Setting",
    "Stopped",
    "StudySpec",
    "StudyState",
    "Telemetry",
    "Track",
    "Value",
    "Verdict",
    "When",
    "Window",
]

#: The modules that the names come from; each loads when one of its names is used first.
_MODULES = ("host", "knobs", "objective", "spec", "telemetry", "outcome", "study")


def __getattr__(name: str) -> Any:
    """Load a name at its first use: `tune --help` needs few of them."""
    if name in __all__:
        from importlib import import_module

        for module in _MODULES:
            loaded = import_module(f"tuner.model.{module}")
            if hasattr(loaded, name):
                return globals().setdefault(name, getattr(loaded, name))
    raise AttributeError(f"module 'tuner.model' has no attribute {name!r}")
