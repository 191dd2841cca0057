"""Reading the process table in /proc: who lives, below whom, and with which marker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tuner.hosts import procfs

#: The environment variable that marks every process of a trial.
MARKER = "TUNE_TRIAL"
#: The one that marks the supervisor itself: the next `tune` must know of it too.
SUPERVISES = "TUNE_SUPERVISES"

#: A process in the middle of an exec shows an empty environment for some microseconds; so long
#: is waited for it, s. A program may also have none, and is then never told from that.
EXEC_WAIT_S = 0.05


class Process(NamedTuple):
    """A row of the process table; ``(pid, start)`` names a process for good."""

    pid: int
    start: int  # clock ticks since boot
    parent: int
    state: str = "S"  # the letter of proc(5): R, S, D, T (stopped), t (traced), Z …
    threads: int = 1
    kernel: bool = False

    @property
    def dead(self) -> bool:
        """A zombie that only waits to be reaped; not one whose other threads still run."""
        return self.state in "ZXx" and self.threads <= 1


def look_up(pid: int) -> Process | None:
    """The process of this id, or ``None`` if there is none."""
    seen = procfs.stat(pid)
    if seen is None:
        return None
    return Process(pid, seen.started, seen.parent, seen.state, seen.threads, seen.kernel)


def processes() -> list[Process]:
    """Every process that this one can see."""
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    return [found for pid in pids if (found := look_up(pid)) is not None]


def now() -> int:
    """The present moment as start times are given, clock ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def descendants(table: Iterable[Process], roots: Iterable[int]) -> list[Process]:
    """The live processes below ``roots``, which are left out themselves."""
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = list(roots)
    seen = set(queue)
    while queue:
        below = [child for child in children.get(queue.pop(), ()) if child.pid not in seen]
        seen.update(child.pid for child in below)
        queue.extend(child.pid for child in below)
        found.extend(child for child in below if not child.dead)
    return found


def environment(process: Process) -> bytes | None:
    """The environment that a process was started with; ``None`` if it is not ours to read."""
    if process.state not in "ZXx":
        return procfs.content(f"/proc/{process.pid}/environ")
    try:  # its main thread has ended before the others
        tasks = os.listdir(f"/proc/{process.pid}/task")  # noqa: PTH208 (costs start-up time)
    except OSError:
        return None
    found = (procfs.content(f"/proc/{process.pid}/task/{task}/environ") for task in tasks)
    return next(filter(None, found), None)


def carriers(
    candidates: Iterable[Process],
    marker: str,
    *,
    environ: Callable[[Process], bytes | None] = environment,
    wait_s: float = EXEC_WAIT_S,
) -> list[Process]:
    """Those that carry the marker of a trial, or supervise it.

    One that shows no environment is looked at again for ``wait_s``: during an exec there is
    none, and what comes of it would be missed.
    """
    wanted = {os.fsencode(f"{name}={marker}") for name in (MARKER, SUPERVISES)}
    found = []
    deadline, delay_s = time.monotonic() + wait_s, 0.001
    while True:
        unclear = []
        for process in candidates:
            text = environ(process)
            if text:
                if not wanted.isdisjoint(text.split(b"\0")):
                    found.append(process)
            elif text is not None and not process.kernel:
                unclear.append(process)
        if not unclear or time.monotonic() > deadline:
            return found
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, 0.01)
        candidates = [each for each in unclear if is_alive(each)]


def is_alive(process: Process) -> bool:
    """True while exactly this process lives."""
    current = look_up(process.pid)
    return current is not None and current.start == process.start and not current.dead
