"""What a study does on a host, whichever it is: look at it, hold it, prove that it is empty.

:class:`LocalHost` does it on the host that it runs on. An agent has one too, and answers with it
(:mod:`tuner.hosts.remote`), so that nothing is written twice.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner.hosts import lock, networks, survey
from tuner.hosts.machine import this_machine
from tuner.hosts.networks import Network
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import Remains, now
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
    """A host of a study.

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
            marker: That of all processes which launches of the study start there.
            lock_folder: ``TUNE_LOCK_DIR``; empty: the usual one.

        Raises:
            BusyError: Another study has it.
            UsageError: The lock file cannot be used.
            TunerError: A process that was left cannot be ended.
        """

    def sweep(self) -> int:
        """End what launches have left; return once a scan proves that nothing is left.

        Returns:
            How many processes had to be killed.

        Raises:
            TunerError: A process cannot be ended (it hangs in the kernel).
        """

    def survey(self, question: str, *arguments: Any) -> Any:
        """Answer one of :data:`QUESTIONS` for ``tune doctor``, in values that JSON has."""

    def close(self) -> None:
        """Sweep, and give the host back."""


#: ``host``: what is seen of it; ``answer``, ``measure``: the two ends of a link.
QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "host": survey.survey,
    "answer": networks.answer,
    "measure": networks.measure,
}


class LocalHost:
    """The host that this process runs on."""

    def __init__(self) -> None:
        self._remains: Remains | None = None
        self._note: Path | None = None
        self._held = ExitStack()

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
        held = lock.measuring(study, environ=environ, database=database)
        self._note = self._held.enter_context(held)
        # If this is killed, the next one that holds the host ends what carries the marker.
        left_over.write(self._note, {"marker": marker, "cgroup": "", "folder": ""})
        self._remains = Remains(marker, None, now() - 1)

    def sweep(self) -> int:
        """See :class:`Host`."""
        if self._remains is None:
            return 0
        killed, left = self._remains.sweep()
        if left:
            raise left_over.unkillable(left, "a launch")
        return killed

    def survey(self, question: str, *arguments: Any) -> Any:
        """See :class:`Host`."""
        found = QUESTIONS[question](*arguments)
        return found if isinstance(found, int) else asdict(found)

    def close(self) -> None:
        """See :class:`Host`."""
        with self._held:
            self.sweep()
            if self._note is not None:
                left_over.remove(self._note)
