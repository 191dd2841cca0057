"""The nouns of the tool: frozen values that all other modules use.

Nothing here has an effect or imports anything but the standard library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.model.knob import *
    from tuner.model.outcome import *
    from tuner.model.stages import *
    from tuner.model.study import *
    from tuner.model.study_spec import *
    from tuner.model.tuned_job import *
else:
    _MODULES = ("knob", "study_spec", "stages", "outcome", "study", "tuned_job")

    def __getattr__(name: str) -> Any:
        """Load the module of a name at its first use: `tune --help` needs few of them."""
        if not name.startswith("_"):
            for module in _MODULES:
                namespace = vars(import_module(f"tuner.model.{module}"))
                if name in namespace:
                    return globals().setdefault(name, namespace[name])
        raise AttributeError(f"module 'tuner.model' has no attribute {name!r}")
