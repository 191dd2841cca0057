"""``tune doctor``: is a host fit for a study? What was seen of it, and one function a check.

`look` fills in what the checks read: plain values, which the agent of another host sends as well.
"""

from __future__ import annotations

from tuner.results.doctor.checks import Finding, State, diagnose
from tuner.results.doctor.host_view import HostView, look
from tuner.results.doctor.several import diagnose_hosts

__all__ = ["Finding", "HostView", "State", "diagnose", "diagnose_hosts", "look"]
