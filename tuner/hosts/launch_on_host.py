"""The part on this host of a launch that runs on several hosts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from tuner.hosts.activity import Activity
from tuner.hosts.launch_observer import LaunchObserver, LaunchView
from tuner.hosts.probe import private_folder, probe_folder
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import Remains, remove_folder
from tuner.hosts.supervisor.pausing import Pause
from tuner.hosts.untrusted_files import make_folder, read_untrusted
from tuner.model.errors import TunerError

#: At most so much of a log is copied from another host, bytes.
MOST_LOG_BYTES = 64 << 20


class LaunchOnHost(LaunchObserver):
    """Observes, pauses and ends the processes of a launch on a host, and reads what they write.

    They carry its ``marker``, and were started after ``since`` (clock ticks since boot).
    """

    def __init__(self, marker: str, since: int, host: str) -> None:
        self._remains = Remains(marker, root=None, since=since)
        self._pause = Pause(self._remains)
        self._host = host
        self._recording = ExitStack()
        self._out = Path()  # the folder that the program writes into
        self._new_folder = ""  # the topmost of its folders that was made here; empty: none was
        self._versions: dict[str, tuple[int, ...]] = {}
        self.is_over = False  # its processes have been ended
        super().__init__(private_folder(marker), ranks=0, gpus=False, environ={}, reaps=False)
        self.follow(lambda: [process.pid for process in self._remains.survivors()])

    def share(self, folder: str, inode: int) -> bool:
        """Make the folder that the program writes into, unless this host shares it.

        Return whether this host shares it: the folder has this inode where ``tune`` runs. A folder
        that is made goes with the launch; another one in its place is a ``TunerError``.
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
        """Return the contents of files in the program's folder that are new or have changed.

        ``pattern`` is for their names, by which they are returned; nothing if the folder is shared.
        """
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

    def watch(self, ranks: Mapping[str, int], gpus: bool, environ: Mapping[str, str]) -> None:
        """Begin to observe the launch; ``ranks`` has the number of its ranks by host."""
        self._recording.close()
        make_folder(probe_folder(self._folder))
        self._ranks, self._gpus, self._environ = ranks.get(self._host, 0), gpus, environ
        self.begin()

    def record(self) -> None:
        """Record the telemetry until the next :meth:`view`."""
        self._recording.close()
        self._recording.enter_context(self.recording())

    def activities(self) -> tuple[Activity, ...]:
        return tuple(replace(activity, host=self._host) for activity in super().activities())

    def computes(self, processes: tuple[Activity, ...], most_s: float) -> bool:
        local = tuple(process for process in processes if process.host == self._host)
        return super().computes(local, most_s)

    def view(self) -> LaunchView:
        self._recording.close()
        return super().view()

    def pause(self) -> None:
        """Stop the processes, and return once they stand still; harmless if they do.

        A process that sshd starts just then goes on until the next pause. It is a daemon of the
        MPI, which waits for its launcher, and that is paused too.
        """
        self._pause.begin()

    def resume(self) -> None:
        """Let the processes go on; harmless if they do."""
        self._pause.end()

    def sweep(self) -> int:
        """End the processes, paused or not, and return how many had to be killed."""
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
