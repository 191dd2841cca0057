"""One launch of a study over several hosts, as far as it is on this host."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from tuner.hosts.activity import Activity
from tuner.hosts.observer import LaunchObserver, LaunchView
from tuner.hosts.probe import private_folder, probe_folder
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import Remains, remove_folder
from tuner.hosts.supervisor.pausing import Pause
from tuner.hosts.untrusted_files import make_folder, read_untrusted
from tuner.model import Load, Observation, Telemetry
from tuner.model.errors import TunerError

#: No more of a log is brought from another host, bytes.
MOST_LOG_BYTES = 64 << 20


class LaunchOnHost:
    """What is on this host of a launch: its processes, what is seen of them, what they write.

    Args:
        marker: That of the launch.
        since: It begins after this moment, clock ticks since boot.
    """

    def __init__(self, marker: str, since: int) -> None:
        self._remains = Remains(marker, None, since)
        self._pause = Pause(self._remains)
        self._folder = private_folder(marker)
        self._observer: LaunchObserver | None = None
        self._recording = ExitStack()
        self._out = Path()  # what the program writes lies there
        self._new_folder = ""  # the first of its folders that was missing; empty: none was
        self._versions: dict[str, tuple[int, ...]] = {}
        self.is_over = False  # its processes have been ended

    def share(self, folder: str, inode: int) -> bool:
        """Have a folder for what the program writes.

        Args:
            folder: Its path.
            inode: That of the folder where ``tune`` runs.

        Returns:
            Whether it is the same one. If not, it is made, and goes with the launch.

        Raises:
            TunerError: It cannot be made, or another one is in its place.
        """
        remove_folder(self._new_folder)
        self._new_folder, self._out, self._versions, self.is_over = "", Path(folder), {}, False
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
        self._new_folder = str(missing[-1])
        return False

    def changed(self, pattern: str) -> dict[str, str]:
        """The files of that folder, by their names, that are new or not as they were before."""
        texts = {}
        for path in sorted(self._out.glob(pattern)) if self._new_folder else ():
            with suppress(OSError):
                status = path.stat()
                version = status.st_ino, status.st_size, status.st_mtime_ns
                if version != self._versions.get(path.name):
                    data = read_untrusted(path, MOST_LOG_BYTES)
                    texts[path.name] = data.decode("latin-1")
                    self._versions[path.name] = version
        return texts

    def watch(self, ranks: int, gpus: bool, environ: Mapping[str, str]) -> None:
        """Look at the launch from now on, as a :class:`LaunchObserver` does.

        Args:
            ranks: How many of its ranks run on this host.
            gpus: Whether there is a GPU to look at.
            environ: What of the launch's environment matters for that.
        """
        self._recording.close()
        remove_folder(str(probe_folder(self._folder)))
        make_folder(probe_folder(self._folder))
        self._observer = LaunchObserver(
            self._folder, ranks=ranks, gpus=gpus, environ=environ, reaps=False
        )

    def record(self) -> None:
        """Record the telemetry until the next :meth:`view`."""
        self._recording.close()
        self._recording.enter_context(self._watching.recording())

    def sample(self) -> float:
        """See :class:`tuner.hosts.observer.Observer`, as for the next four."""
        return self._watching.sample(process.pid for process in self._remains.survivors())

    def activities(self) -> tuple[Activity, ...]:
        """What the processes of the last sample have done so far."""
        return tuple(self._watching.activities())

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        """Whether one of these runs code of its own."""
        return self._watching.computes(processes, most_s)

    def stacks(self) -> dict[str, str]:
        """Where the ranks stand."""
        return self._watching.stacks()

    def view(self) -> LaunchView:
        """All that was seen of the launch; the recording ends."""
        self._recording.close()
        if self._observer is None:  # the launch's own agent is lost, this is another one
            return LaunchView(Observation(), Telemetry(), Load(0.0))
        return self._observer.view()

    @property
    def _watching(self) -> LaunchObserver:
        if self._observer is None:
            raise TunerError("no launch is watched")
        return self._observer

    def pause(self) -> None:
        """Stop the processes, and return once they stand still; harmless if they do.

        What sshd starts just then goes on until the next pause. That is a daemon of the MPI, which
        waits for its launcher, and that is paused too.
        """
        self._pause.begin()

    def resume(self) -> None:
        """Let the processes go on; harmless if they do."""
        self._pause.end()

    def sweep(self) -> int:
        """End the processes, paused or not; return once a scan proves that nothing is left.

        Returns:
            How many of them had to be killed.

        Raises:
            TunerError: A process cannot be ended (it hangs in the kernel).
        """
        self.is_over = True
        killed, left = self._remains.sweep()
        if left:
            raise left_over.unkillable(left, "a launch")
        return killed

    def close(self) -> None:
        """Remove the files that this host has of the launch."""
        self._recording.close()
        remove_folder(self._new_folder)
        remove_folder(str(self._folder))
