"""The hosts that the next launch of a study runs on: one that is lost is replaced.

An agent is started anew on the same host. If that fails, another host takes its place: one that
``--hosts-from`` names now, or one of the hostfile that the layout leaves free. Ranks stay as they
are placed: only the name of their host changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tuner.config.hosts import with_room
from tuner.config.hosts_from import hosts_from
from tuner.hosts.remote.hosts import GOES_ON, HostLostError, Hosts
from tuner.model import Layout, StudySpec
from tuner.model.errors import TunerError


class HostsThere:
    """Where the launches of a study run.

    Args:
        spec: The study, which names the hosts that it begins with.
        hosts: They are held.
        tell: Called with what a user should know.
    """

    def __init__(self, spec: StudySpec, hosts: Hosts, tell: Callable[[str], None]) -> None:
        self._spec, self._hosts, self._tell = spec, hosts, tell
        self._layout = spec.layout

    def layout(self) -> Layout:
        """Where the next launch runs: each host is there, and held.

        Raises:
            HostLostError: One is lost, and none takes its place.
            UsageError: ``--hosts-from`` does not say which there are.
        """
        for lost in self._hosts.lost():
            reasons = [f"the host {lost.name} is lost: {lost.lost}"]
            for name in self._candidates(lost.name):
                try:
                    self._hosts.replace(lost.name, name)
                except TunerError as error:
                    reasons.append(error.message)
                    continue
                if name != lost.name:
                    self._tell(f"{name} takes the place of {lost.name}, which is lost")
                hosts = (name if each == lost.name else each for each in self._layout.hosts)
                self._layout = replace(self._layout, hosts=tuple(hosts))
                break
            else:
                raise HostLostError("; ".join(reasons), GOES_ON)
        return self._layout

    def _candidates(self, lost: str) -> list[str]:
        """What may take the place of a host: itself, if it may still be there, then others."""
        there: tuple[str, ...] = (lost, *self._spec.spares)
        if self._spec.hosts_from:
            offers = hosts_from(self._spec.hosts_from)
            there = with_room(offers, self._layout.ranks_per_host)
        used = set(self._layout.hosts) - {lost}
        return sorted((name for name in there if name not in used), key=lambda name: name != lost)
