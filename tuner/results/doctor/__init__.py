"""``tune doctor``: is a host fit for a study? What was seen of it, and one function a check.

`look` fills in what the checks read: plain values, so that another host can send its own.
"""

from __future__ import annotations

from tuner.results.doctor.checks import Finding, State, diagnose
from tuner.results.doctor.host_view import HostView, look

__all__ = ["Finding", "HostView", "State", "diagnose", "look"]
