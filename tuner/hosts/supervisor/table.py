"""Reading the process table in /proc: who lives, below whom, and with which marker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from tuner.hosts.procfs import TICKS, Stat, stat, try_read

#: The environment variable that marks every process of a trial.
MARKER = "TUNE_TRIAL"
#: The one that marks the supervisor itself: the next `tune` must know of it too.
SUPERVISES = "TUNE_SUPERVISES"

#: A process in the middle of an exec shows an empty environment for some microseconds; so long
#: is waited for it, s. A program may also have none, and is then never told from that.
EXEC_WAIT_S = 0.05


def now() -> int:
    """The present moment as start times are given, clock ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


def descendants(table: Iterable[Stat], roots: Iterable[int]) -> list[Stat]:
    """The live processes below ``roots``, which are left out themselves."""
    children: dict[int, list[Stat]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    found: list[Stat] = []
    queue = list(roots)
    seen = set(queue)
    while queue:
        below = [child for child in children.get(queue.pop(), ()) if child.pid not in seen]
        seen.update(child.pid for child in below)
        queue.extend(child.pid for child in below)
        found.extend(child for child in below if not child.dead)
    return found


def environment(process: Stat) -> bytes | None:
    """The environment that a process was started with; ``None`` if it is not ours to read."""
    if process.state not in "ZXx":
        return try_read(f"/proc/{process.pid}/environ")
    try:  # its main thread has ended before the others
        tasks = os.listdir(f"/proc/{process.pid}/task")  # noqa: PTH208 (costs start-up time)
    except OSError:
        return None
    found = (try_read(f"/proc/{process.pid}/task/{task}/environ") for task in tasks)
    return next(filter(None, found), None)


def carriers(
    candidates: Iterable[Stat],
    marker: str,
    *,
    environ: Callable[[Stat], bytes | None] = environment,
    wait_s: float = EXEC_WAIT_S,
) -> list[Stat]:
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


def is_alive(process: Stat) -> bool:
    """True while exactly this process lives."""
    current = stat(process.pid)
    return current is not None and current.started == process.started and not current.dead
