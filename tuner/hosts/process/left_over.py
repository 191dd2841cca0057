"""Notes of launches in flight, by which the next ``tune`` ends what a killed one has left.

The supervisor ends a trial when ``tune`` is killed. If both are killed, the note is left: it lies
beside the lock of the host, so the next owner of the lock finds it, whatever its study. Two
launches may run side by side, so each has a note, and so has a study over several hosts.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from tuner.hosts.procfs import read
from tuner.hosts.supervisor.cleanup import Remains, now, remove_folder, study_of
from tuner.hosts.supervisor.serving import SETTLE_S, TERM_WAIT_S
from tuner.hosts.untrusted_files import create, open_untrusted
from tuner.model import codec
from tuner.model.errors import TunerError

#: Where each host keeps the private folder of a study over several hosts.
MEMORY = Path("/dev/shm")

#: No note is longer.
_NOTE_BYTES = 1 << 14
#: A supervisor that still ends the launch gets this long before it is ended with the rest, s.
_GRACE_S = TERM_WAIT_S + SETTLE_S + 1.0


@dataclass(frozen=True)
class InFlightLaunch:
    """A launch that may be running."""

    marker: str
    since: int  # clock ticks since boot
    boot_id: str
    folder: str  # a path, or empty


def note_path(folder: Path) -> Path:
    """Return the common beginning of the paths of this user's notes in the folder of the lock."""
    return folder / f"in-flight-{os.geteuid()}"


def note_of(notes: Path, marker: str) -> Path:
    """Return the path of one note: the beginning of :func:`note_path`, then the launch's name.

    A study over several hosts has a note, too.
    """
    return notes.with_name(f"{notes.name}-{name_of(marker)}")


def name_of(marker: str) -> str:
    """Return the name of a trial's temporary folder, 21 letters."""
    study = study_of(marker)
    launch = marker[len(study) :]
    return f"tune-{study[: 16 - len(launch)]}{launch}"


def write(path: Path, marker: str, folder: str) -> None:
    """Note a launch before it is started; without a note if the file cannot be written."""
    flight = InFlightLaunch(marker, now() - 1, boot_id(), folder)  # ticks are rounded down
    with contextlib.suppress(OSError), os.fdopen(create(path), "wb") as file:
        file.write(codec.dumps(flight).encode())
        file.flush()
        os.fsync(file.fileno())


def end(path: Path) -> None:
    """End what is left of the launch that a note names, and remove the note.

    A note that cannot be read, or that is somebody else's, names none. A process that cannot be
    ended (it hangs in the kernel) is a ``TunerError``.
    """
    flight = None
    with contextlib.suppress(OSError), open_untrusted(path) as file:
        if os.fstat(file.fileno()).st_uid == os.geteuid():
            flight = parse(file.read(_NOTE_BYTES))
    if flight is not None and flight.boot_id == boot_id():
        remains = Remains(flight.marker, root=None, since=flight.since)
        # A folder in memory is that of a study over several hosts, which has no supervisor.
        is_study = Path(flight.folder).parent == MEMORY
        _, left = remains.end(flight.folder, 0.0 if is_study else _GRACE_S)
        if left:
            raise unkillable(left, "an earlier trial")
    elif flight is not None and flight.folder:
        remove_folder(flight.folder)
    remove(path)


def remove(path: Path) -> None:
    """Remove the note, once nothing is left of its launch."""
    with contextlib.suppress(OSError):
        if path.lstat().st_uid == os.geteuid():
            path.unlink()


def unkillable(pids: list[int], whose: str = "the trial") -> TunerError:
    """Return the error for processes that SIGKILL does not end."""
    return TunerError(
        f"processes of {whose} do not end on SIGKILL: {pids}",
        "they hang in the kernel (a dead network file system or device?)",
    )


def parse(text: bytes) -> InFlightLaunch | None:
    """Return the launch that a note names, ``None`` if the text is not such a note."""
    try:
        flight = codec.loads(InFlightLaunch, text.decode())
    except (ValueError, KeyError, TypeError):
        return None
    if not flight.marker or not (flight.marker + flight.folder).isprintable():
        return None
    folder = Path(flight.folder)
    is_ours = folder.is_absolute() and folder.name == name_of(flight.marker)
    return flight if is_ours or not flight.folder else None


def boot_id() -> str:
    """Return the kernel's id of the present boot."""
    return read("/proc/sys/kernel/random/boot_id").decode().strip()
