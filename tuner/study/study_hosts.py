"""The hosts that the next launch of a study runs on: one that is lost is replaced.

An agent is started anew on the same host. If that fails, another host takes its place: one that
``--hosts-from`` names now, or one of the hostfile that the layout leaves free. Ranks stay as they
are placed: only the name of their host changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tuner.config.hosts import hosts_from, with_room
from tuner.hosts.remote.remote_hosts import GOES_ON, HostLostError, Hosts
from tuner.knobs.space import rank_numbers
from tuner.model import Layout, StudySpec
from tuner.model.errors import TunerError


@dataclass
class StudyHosts:
    """The hosts that the launches of a study run on; each is held."""

    spec: StudySpec
    layout: Layout  # of the next launch
    hosts: Hosts
    tell: Callable[[str], None]  # shows a note to the user
    cancelled: Callable[[], bool]  # ends the wait for ``--hosts-from``

    def replace_lost(self) -> None:
        """Replace each lost host of the layout, by a new agent on it or by another host.

        It is a `HostLostError` if no host takes its place.
        """
        for host in self.hosts.lost():
            reasons = [f"the host {host.name} is lost: {host.lost}"]
            try:
                candidates = self._candidates(host.name)
            except TunerError as error:
                raise HostLostError(f"{reasons[0]}; {error.message}", error.hint) from error
            for name in candidates:
                try:
                    self.hosts.replace(host.name, name)
                except TunerError as error:
                    reasons.append(error.message)
                    continue
                if name != host.name:
                    self.tell(f"{name} takes the place of {host.name}, which is lost")
                hosts = (name if old == host.name else old for old in self.layout.hosts)
                self.layout = replace(self.layout, hosts=tuple(hosts))
                break
            else:
                raise HostLostError("; ".join(reasons), GOES_ON)

    def _candidates(self, lost: str) -> list[str]:
        """Return which hosts may take the place of a lost one: first itself, unless it is gone."""
        names: tuple[str, ...] = (lost, *self.spec.spares)
        if self.spec.hosts_from:
            offers = hosts_from(self.spec.hosts_from, self.cancelled)
            names = with_room(offers, max(rank_numbers(self.spec)))
        used = set(self.layout.hosts) - {lost}
        return sorted((name for name in names if name not in used), key=lambda name: name != lost)
