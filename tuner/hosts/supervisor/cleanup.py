"""Ending what is left of a trial, until a scan proves that nothing is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection

from tuner.hosts.supervisor.cgroup import Cgroup
from tuner.hosts.supervisor.resource_cleanup import (
    Segments,
    abandoned,
    remove,
    remove_folder,
    segments_of,
)
from tuner.hosts.supervisor.table import Process, carriers, descendants, look_up, processes

#: After this long, what SIGKILL has not ended (it sits in the kernel) is reported instead, s.
GIVE_UP_S = 60.0

_NO_GROUP = Cgroup("")


def survivors(
    marker: str,
    root: int | None,
    since: int,
    seen: Collection[tuple[int, int]] = (),
    group: Cgroup = _NO_GROUP,
) -> list[Process]:
    """What is alive of a trial: below ``root``, carrying the marker, ``seen``, or in ``group``.

    What is below any of those belongs to it as well.

    Args:
        marker: The value of ``TUNE_TRIAL``.
        root: The supervisor; ``None`` if it is gone. It is left out itself.
        since: The start of the trial in clock ticks: nothing older belongs to it.
        seen: (id, start) of processes that once were below ``root``: if it was killed, a
            daemon without the marker is known by nothing else.
        group: The trial's control group.
    """
    table = processes()
    members = group.members()
    roots = set() if root is None else {root}
    known = {
        each.pid: each for each in table if each.pid in members or (each.pid, each.start) in seen
    }
    known |= {each.pid: each for each in descendants(table, {*roots, *known})}
    others = [
        each for each in table if each.start >= since and not each.dead and each.pid not in known
    ]
    known |= {each.pid: each for each in carriers(others, marker)}
    known |= {each.pid: each for each in descendants(table, known)}
    spared = {*roots, os.getpid()}
    return [each for each in known.values() if each.pid not in spared and not each.dead]


def send(process: Process, number: int) -> bool:
    """Signal exactly this process, never a later one of the same id; False if it is gone."""
    handle = None
    try:
        if hasattr(os, "pidfd_open"):
            try:
                handle = os.pidfd_open(process.pid)
            except ProcessLookupError:
                return False
            except OSError:  # Linux before 5.3
                handle = None
        current = look_up(process.pid)
        if current is None or current.start != process.start:
            return False
        if handle is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def sweep(
    marker: str,
    root: int | None,
    since: int,
    *,
    seen: Collection[tuple[int, int]] = (),
    group: Cgroup = _NO_GROUP,
    reap: Callable[[], bool] = lambda: False,
    pause: Callable[[float], object] = time.sleep,
    give_up_s: float = GIVE_UP_S,
) -> tuple[int, list[int]]:
    """Kill what is left of a trial until a scan proves that nothing is.

    ``marker`` to ``group`` are those of :func:`survivors`. ``reap`` collects dead children and
    says whether some are left: with a subreaper "none" is the proof for the whole tree,
    whatever the scan may have missed.

    Returns:
        How many were killed, and the ids of those that SIGKILL could not end.
    """
    killed: set[tuple[int, int]] = set()
    segments: Segments = set()
    deadline, delay_s = time.monotonic() + give_up_s, 0.001
    while True:
        children = reap()
        left = survivors(marker, root, since, seen, group)
        if not left and not children and not group.populated():
            remove(segments | abandoned(since))
            return len(killed), []
        if time.monotonic() > deadline:
            return len(killed), [process.pid for process in left]
        segments |= segments_of(left)
        killed.update((each.pid, each.start) for each in left if send(each, signal.SIGKILL))
        group.kill()  # with what was forked since the scan
        pause(delay_s)
        delay_s = min(2 * delay_s, 0.1)


def end_orphans(
    marker: str,
    root: int | None,
    since: int,
    *,
    seen: Collection[tuple[int, int]] = (),
    group: Cgroup = _NO_GROUP,
    folder: str,
    grace_s: float,
) -> tuple[int, list[int]]:
    """End a trial whose supervisor was killed, and remove its control group and its folder.

    What is left gets ``grace_s`` to end by itself: the kernel has sent SIGTERM to the command.
    The other arguments and the result are those of :func:`sweep`; ``folder`` may be empty.
    """
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and survivors(marker, root, since, seen, group):
        time.sleep(0.01)
    killed, left = sweep(marker, root, since, seen=seen, group=group)
    if not left:
        group.remove()
        if folder:
            remove_folder(folder)
    return killed, left
