"""Which knobs can be set here, and why the others cannot: a pure function of what was found."""

from __future__ import annotations

from tuner.config.applies.here import Host
from tuner.config.applies.judge import Answer, answer

__all__ = ["Answer", "Host", "answer"]
