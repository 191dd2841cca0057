"""What a study does on a host, whichever it is: hold it, watch launches, prove that it is empty.

:class:`LocalHost` does it on the host that it runs on. An agent has one too, and answers with it
(:mod:`tuner.hosts.remote`), so that nothing is written twice.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, get_type_hints

from tuner.hosts import lock, networks
from tuner.hosts.activity import Activity
from tuner.hosts.machine import this_machine
from tuner.hosts.networks import Link, Network
from tuner.hosts.observer import LaunchObserver, LaunchView
from tuner.hosts.probe import private_folder, probe_folder
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import Remains, now, remove_folder
from tuner.hosts.survey import Survey, survey
from tuner.hosts.untrusted_files import create, make_folder, read_untrusted
from tuner.model import Load, Machine, Observation, Telemetry
from tuner.model.errors import TunerError

#: No more of a log is brought from another host, bytes.
MOST_LOG_BYTES = 64 << 20


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

    def place(self, files: Mapping[str, str]) -> None:
        """Put files, by their path and text, into the host's private folder of the study.

        It is :func:`tuner.hosts.probe.private_folder`, and goes with :meth:`close`.
        """

    def watch(self, ranks: int, gpus: bool, environ: Mapping[str, str]) -> None:
        """Look at the launch that starts now, as a :class:`LaunchObserver` does.

        Args:
            ranks: How many of its ranks run on this host.
            gpus: Whether there is a GPU to look at.
            environ: What of the launch's environment matters for that.
        """

    def sample(self) -> float:
        """See :class:`tuner.hosts.observer.Observer`, as for the next four."""

    def activities(self) -> tuple[Activity, ...]:
        """What the processes of the last sample have done so far."""

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        """Whether one of these runs code of its own."""

    def stacks(self) -> dict[str, str]:
        """Where the ranks stand."""

    def view(self) -> LaunchView:
        """All that was seen of the launch; the recording ends."""

    def share(self, folder: str, inode: int) -> bool:
        """Have a folder for what the program writes.

        Args:
            folder: Its path.
            inode: That of the folder where ``tune`` runs.

        Returns:
            Whether it is the same one. If not, it is made, and goes when the next one is.

        Raises:
            TunerError: It cannot be made, or another one is in its place.
        """

    def changed(self, pattern: str) -> dict[str, str]:
        """The files of that folder, by their names, that are new or not as they were before."""

    def survey(self, programs: Mapping[str, tuple[str, ...]], folders: Mapping[str, str]) -> Survey:
        """See :func:`tuner.hosts.survey.survey`."""

    def answer(self) -> int:
        """See :func:`tuner.hosts.networks.answer`."""

    def measure(self, address: str, port: int) -> Link:
        """See :func:`tuner.hosts.networks.measure`."""

    def sweep(self) -> int:
        """End what launches have left; return once a scan proves that nothing is left.

        Returns:
            How many processes had to be killed.

        Raises:
            TunerError: A process cannot be ended (it hangs in the kernel).
        """

    def close(self) -> None:
        """Sweep, and give the host back."""


@cache
def types_of(method: str) -> dict[str, Any]:
    """What a method of :class:`Host` takes, in order, and then gives (``return``)."""
    return get_type_hints(getattr(Host, method))


class LocalHost:
    """The host that this process runs on."""

    def __init__(self) -> None:
        self._remains: Remains | None = None
        self._note: Path | None = None
        self._folder = Path()
        self._held = ExitStack()
        self._observer: LaunchObserver | None = None
        self._recording = ExitStack()
        self._out = Path()  # what the program writes lies there
        self._made = ""  # the first of its folders that was missing; empty: none was
        self._versions: dict[str, tuple[int, ...]] = {}

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
        self.begin(marker, self._held.enter_context(held))

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

    def watch(self, ranks: int, gpus: bool, environ: Mapping[str, str]) -> None:
        """See :class:`Host`."""
        self._recording.close()
        remove_folder(str(probe_folder(self._folder)))
        make_folder(probe_folder(self._folder))
        self._observer = LaunchObserver(
            self._folder, ranks=ranks, gpus=gpus, environ=environ, reaps=False
        )
        self._recording.enter_context(self._observer.recording())

    def sample(self) -> float:
        """See :class:`Host`."""
        assert self._remains is not None
        return self._watching.sample(each.pid for each in self._remains.survivors())

    def activities(self) -> tuple[Activity, ...]:
        """See :class:`Host`."""
        return tuple(self._watching.activities())

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        """See :class:`Host`."""
        return self._watching.computes(processes, most_s)

    def stacks(self) -> dict[str, str]:
        """See :class:`Host`."""
        return self._watching.stacks()

    def view(self) -> LaunchView:
        """See :class:`Host`."""
        self._recording.close()
        if self._observer is None:  # the launch's own agent is lost, this is another one
            return LaunchView(Observation(), Telemetry(), Load(0.0))
        return self._observer.view()

    @property
    def _watching(self) -> LaunchObserver:
        if self._observer is None:
            raise TunerError("no launch is watched")
        return self._observer

    def share(self, folder: str, inode: int) -> bool:
        """See :class:`Host`."""
        remove_folder(self._made)
        self._made, self._out, self._versions = "", Path(folder), {}
        missing = [path for path in (self._out, *self._out.parents) if not path.exists()]
        try:
            make_folder(self._out)
            # A network file system may show a folder late: then none was made.
            if self._out.stat().st_ino == inode:
                return True
        except OSError as error:
            raise TunerError(f"the folder {folder} cannot be made: {error.strerror}") from error
        if not missing:
            raise TunerError(
                f"there is another folder {folder}, which is not this launch's",
                "move it away, or name a new folder with --run-dir",
            )
        self._made = str(missing[-1])
        return False

    def changed(self, pattern: str) -> dict[str, str]:
        """See :class:`Host`."""
        found = {}
        for path in sorted(self._out.glob(pattern)) if self._made else ():
            with suppress(OSError):
                seen = path.stat()
                version = seen.st_ino, seen.st_size, seen.st_mtime_ns
                if version != self._versions.get(path.name):
                    data = read_untrusted(path, MOST_LOG_BYTES)
                    found[path.name] = data.decode("latin-1")
                    self._versions[path.name] = version
        return found

    def survey(self, programs: Mapping[str, tuple[str, ...]], folders: Mapping[str, str]) -> Survey:
        """See :class:`Host`."""
        return survey(programs, folders)

    def answer(self) -> int:
        """See :class:`Host`."""
        return networks.answer()

    def measure(self, address: str, port: int) -> Link:
        """See :class:`Host`."""
        return networks.measure(address, port)

    def sweep(self) -> int:
        """See :class:`Host`."""
        if self._remains is None:
            return 0
        killed, left = self._remains.sweep()
        if left:
            raise left_over.unkillable(left, "a launch")
        return killed

    def close(self) -> None:
        """See :class:`Host`."""
        with self._held:
            self._recording.close()
            self.sweep()
            remove_folder(self._made)
            if self._note is not None:
                remove_folder(str(self._folder))
                left_over.remove(self._note)
