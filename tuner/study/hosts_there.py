"""The hosts that the next launch of a study runs on: one that is lost is replaced.

An agent is started anew on the same host. If that fails, another host takes its place: one that
``--hosts-from`` names now, or one of the hostfile that the layout leaves free. Ranks stay as they
are placed: only the name of their host changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tuner.config.hosts import with_room
from tuner.config.hosts_from import hosts_from
from tuner.hosts.remote.hosts import GOES_ON, HostLostError, Hosts
from tuner.model import Layout, StudySpec
from tuner.model.errors import TunerError


@dataclass
class HostsThere:
    """Where the launches of a study run."""

    spec: StudySpec
    layout: Layout  # of the next launch
    hosts: Hosts  # they are held
    tell: Callable[[str], None]  # what a user should know
    cancelled: Callable[[], bool]  # asked while ``--hosts-from`` is waited for

    def replace_lost(self) -> None:
        """Afterwards each host of the layout is there, and held.

        Raises:
            HostLostError: One is lost, and none takes its place.
            KeyboardInterrupt: Cancelled.
        """
        for lost in self.hosts.lost():
            reasons = [f"the host {lost.name} is lost: {lost.lost}"]
            try:
                candidates = self._candidates(lost.name)
            except TunerError as error:
                raise HostLostError(f"{reasons[0]}; {error.message}", error.hint) from error
            for name in candidates:
                try:
                    self.hosts.replace(lost.name, name)
                except TunerError as error:
                    reasons.append(error.message)
                    continue
                if name != lost.name:
                    self.tell(f"{name} takes the place of {lost.name}, which is lost")
                hosts = (name if each == lost.name else each for each in self.layout.hosts)
                self.layout = replace(self.layout, hosts=tuple(hosts))
                break
            else:
                raise HostLostError("; ".join(reasons), GOES_ON)

    def _candidates(self, lost: str) -> list[str]:
        """What may take the place of a host: itself, if it may still be there, then others."""
        there: tuple[str, ...] = (lost, *self.spec.spares)
        if self.spec.hosts_from:
            offers = hosts_from(self.spec.hosts_from, self.cancelled)
            there = with_room(offers, self.layout.ranks_per_host)
        used = set(self.layout.hosts) - {lost}
        return sorted((name for name in there if name not in used), key=lambda name: name != lost)
