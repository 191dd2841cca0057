"""What a study does on one host: hold it, place files there, and prove that nothing is left.

``tune`` has a :class:`LocalHost` for the host that it runs on. Each other host has an agent with
one (:mod:`tuner.hosts.remote.agent`).
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts import lock, networks
from tuner.hosts.launch_on_host import LaunchOnHost
from tuner.hosts.machine import this_machine
from tuner.hosts.networks import Network
from tuner.hosts.probe import private_folder
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import Remains, now, remove_folder
from tuner.hosts.survey import Survey, survey
from tuner.hosts.untrusted_files import create, make_folder
from tuner.model import Machine


@dataclass(frozen=True)
class HostDescription:
    """What a host has, and which it is."""

    identity: tuple[str, ...]  # no other host has the same, by whatever name this one is reached
    python: str  # the version of the interpreter there
    machine: Machine
    networks: tuple[Network, ...]


class LocalHost:
    """The host that this process runs on."""

    def __init__(self) -> None:
        self._name = ""
        self._remains: Remains | None = None
        self._note = self._folder = Path()
        self._lock = ExitStack()
        self._launches: dict[str, LaunchOnHost] = {}  # by their markers

    def launch(self, marker: str) -> LaunchOnHost:
        """Return the launch with this marker; a new one first removes those that are over."""
        if marker not in self._launches:
            for key in [key for key, launch in self._launches.items() if launch.is_over]:
                self._launches.pop(key).close()
            since = now() - 1 if self._remains is None else self._remains.since
            self._launches[marker] = LaunchOnHost(marker, since, self._name)
        return self._launches[marker]

    def describe(self, name: str) -> HostDescription:
        """Describe this host, which the launcher knows by ``name``."""
        self._name = name
        # Containers of a kernel share the boot id, but not the name space of process ids.
        pid_namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 (no path)
        identity = (socket.gethostname(), left_over.boot_id(), pid_namespace)
        python = sys.version.split()[0]
        return HostDescription(identity, python, this_machine(), networks.networks())

    def hold(self, study: str, database: str, marker: str, lock_folder: str) -> None:
        """Take the host for a study, until :meth:`close`; end what a killed ``tune`` has left.

        Arguments and errors are those of :func:`tuner.hosts.lock.measuring`. ``marker`` is that of
        the study, and an empty ``lock_folder`` stands for the usual one.
        """
        environ = {lock.LOCK_DIR_VARIABLE: lock_folder} if lock_folder else {}
        measuring = lock.measuring(study, environ=environ, database=database, is_agent=True)
        self.begin(marker, left_over.note_of(self._lock.enter_context(measuring), marker))

    def begin(self, marker: str, note: Path) -> None:
        """Begin a study on a host that is held, with a note for the process that holds it next."""
        self._note, self._folder = note, private_folder(marker)
        left_over.write(note, marker, str(self._folder))
        self._remains = Remains(marker, root=None, since=now() - 1)

    def place(self, files: Mapping[str, str]) -> None:
        """Put files, by path and text, into the study's private folder, until :meth:`close`."""
        for name, text in files.items():
            path = self._folder / name
            make_folder(path.parent)
            with os.fdopen(create(path), "w") as file:
                file.write(text)

    def survey(self, programs: Mapping[str, tuple[str, ...]], folders: Mapping[str, str]) -> Survey:
        """Return what ``tune doctor`` checks of this host."""
        return survey(programs, folders)

    def close(self) -> None:
        """End the processes of all launches, and give the host back."""
        with self._lock:
            left = [] if self._remains is None else self._remains.sweep()[1]
            for launch in self._launches.values():
                launch.close()
            if left:
                raise left_over.unkillable(left, "a launch")
            if self._remains is not None:
                remove_folder(str(self._folder))
                left_over.remove(self._note)
