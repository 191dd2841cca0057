"""What a study does on a host, whichever it is: hold it, watch launches, prove that it is empty.

:class:`LocalHost` does it on the host that it runs on. An agent has one too, and answers with it
(:mod:`tuner.hosts.remote`), so that nothing is written twice.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, get_type_hints

from tuner.hosts import lock, networks
from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.machine import this_machine
from tuner.hosts.networks import Link, Network
from tuner.hosts.probe import private_folder
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import Remains, now, remove_folder
from tuner.hosts.survey import Survey, survey
from tuner.hosts.untrusted_files import create, make_folder
from tuner.model import Machine


@dataclass(frozen=True)
class HostDescription:
    """What a host is: what tells it from others, and what it has."""

    hostname: str
    boot_id: str
    processes: str  # the name space of its process ids: containers of a kernel share the boot id
    python: str  # the version of the interpreter there
    machine: Machine
    networks: tuple[Network, ...] = ()

    @property
    def identity(self) -> tuple[str, str, str]:
        """The same for two names of one host."""
        return self.hostname, self.boot_id, self.processes


class Host(Protocol):
    """A host of a study; what it does for one launch is :class:`LaunchOnHost`.

    All raise :class:`tuner.hosts.remote.hosts.HostLostError` if the host cannot be reached.
    """

    def describe(self) -> HostDescription:
        """Say what it is."""

    def hold(self, study: str, database: str, marker: str, lock_folder: str) -> None:
        """Take the host for a study, until :meth:`close`.

        What a killed ``tune`` has left there is ended first.

        Args:
            study: Told to those who find the host busy.
            database: Where the study is kept.
            marker: The study's, as in that of each of its launches.
            lock_folder: ``TUNE_LOCK_DIR``; empty: the usual one.

        Raises:
            BusyError: Another study has it.
            UsageError: The lock file cannot be used.
            TunerError: A process that was left cannot be ended.
        """

    def place(self, files: Mapping[str, str]) -> None:
        """Put files, by their path and text, into the host's private folder of the study.

        It is :func:`tuner.hosts.probe.private_folder`, and goes with :meth:`close`.
        """

    def survey(self, programs: Mapping[str, tuple[str, ...]], folders: Mapping[str, str]) -> Survey:
        """See :func:`tuner.hosts.survey.survey`."""

    def answer(self) -> int:
        """See :func:`tuner.hosts.networks.answer`."""

    def measure(self, address: str, port: int) -> Link:
        """See :func:`tuner.hosts.networks.measure`."""

    def close(self) -> None:
        """End the processes of all launches, and give the host back."""


#: What may be asked of a host with the marker of a launch before the arguments.
OF_A_LAUNCH = {name for name in vars(LaunchOnHost) if not name.startswith("_")} - {"close"}

#: All that may be asked of a host.
METHODS = OF_A_LAUNCH | {name for name in vars(Host) if not name.startswith("_")} - {"close"}


@cache
def types_of(method: str) -> dict[str, Any]:
    """Return what a method of a host takes, in order, and then gives (``return``)."""
    if method in OF_A_LAUNCH:
        return {"launch": str, **get_type_hints(getattr(LaunchOnHost, method))}
    return get_type_hints(getattr(Host, method))


class LocalHost:
    """The host that this process runs on."""

    def __init__(self) -> None:
        self._remains: Remains | None = None
        self._note: Path | None = None
        self._folder = Path()
        self._held = ExitStack()
        self._launches: dict[str, LaunchOnHost] = {}  # by their markers

    def call(self, method: str, *arguments: Any) -> Any:
        """Call one of :data:`METHODS`; before the arguments of a launch's is its marker."""
        if method not in OF_A_LAUNCH:
            return getattr(self, method)(*arguments)
        launch, *others = arguments
        return getattr(self._launch(launch), method)(*others)

    def _launch(self, marker: str) -> LaunchOnHost:
        """Return the launch with this marker; before a new one begins, those that are over go."""
        if marker not in self._launches:
            for over in [key for key, launch in self._launches.items() if launch.is_over]:
                self._launches.pop(over).close()
            since = now() - 1 if self._remains is None else self._remains.since
            self._launches[marker] = LaunchOnHost(marker, since)
        return self._launches[marker]

    def describe(self) -> HostDescription:
        """See :class:`Host`."""
        return HostDescription(
            hostname=socket.gethostname(),
            boot_id=left_over.boot_id(),
            processes=os.readlink("/proc/self/ns/pid"),  # noqa: PTH115 (no path)
            python=sys.version.split()[0],
            machine=this_machine(),
            networks=networks.networks(),
        )

    def hold(self, study: str, database: str, marker: str, lock_folder: str) -> None:
        """See :class:`Host`."""
        environ = {lock.LOCK_DIR_VARIABLE: lock_folder} if lock_folder else {}
        held = lock.measuring(study, environ=environ, database=database, is_agent=True)
        self.begin(marker, left_over.note_of(self._held.enter_context(held), marker))

    def begin(self, marker: str, note: Path) -> None:
        """Begin a study on a host that is held.

        If this process is killed, the next one that holds the host ends by the ``note`` what
        carries the marker, and removes the private folder.
        """
        self._note, self._folder = note, private_folder(marker)
        left_over.write(note, {"marker": marker, "cgroup": "", "folder": str(self._folder)})
        self._remains = Remains(marker, None, now() - 1)

    def place(self, files: Mapping[str, str]) -> None:
        """See :class:`Host`."""
        for name, text in files.items():
            path = self._folder / name
            make_folder(path.parent)
            with os.fdopen(create(path), "w") as file:
                file.write(text)

    def survey(self, programs: Mapping[str, tuple[str, ...]], folders: Mapping[str, str]) -> Survey:
        """See :class:`Host`."""
        return survey(programs, folders)

    def answer(self) -> int:
        """See :class:`Host`."""
        return networks.answer()

    def measure(self, address: str, port: int) -> Link:
        """See :class:`Host`."""
        return networks.measure(address, port)

    def close(self) -> None:
        """See :class:`Host`."""
        with self._held:
            left: list[int] = []
            if self._remains is not None:
                _, left = self._remains.sweep()
            for launch in self._launches.values():
                launch.close()
            if left:
                raise left_over.unkillable(left, "a launch")
            if self._note is not None:
                remove_folder(str(self._folder))
                left_over.remove(self._note)
