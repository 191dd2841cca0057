"""The thread of ours in a Python rank (``wrappers/probe/rank_phases.py``), to be left out.

It reads and writes a little each second, whatever the program does: if it is asked whether
a rank lives, that is no sign of life.
"""

from __future__ import annotations

import os
import re

from tuner.hosts import procfs

#: What the thread calls itself.
NAME = b"tune-probe"


class ProbeThreads:
    """Finds the thread in each process.

    A thread's name is read in its first, second, fourth, eighth … look: it names itself only
    once Python lets it run, and to read all names each time would take long.

    Args:
        proc: The mounted procfs; another folder in tests.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: dict[int, dict[str, int]] = {}  # pid -> thread -> looks; 0: ours

    def transfers(self, pid: int) -> int:
        """Bytes that the live thread of this process has read and written; 0 without one."""
        task = f"{self._proc}/{pid}/task"
        try:
            threads = os.listdir(task)  # noqa: PTH208
        except OSError:
            return 0
        before = self._known.get(pid, {})
        now = {each: self._looks(f"{task}/{each}", before.get(each, 1)) for each in threads}
        self._known[pid] = now
        return sum(
            transferred(procfs.read(f"{task}/{each}/io")) for each in threads if not now[each]
        )

    @staticmethod
    def _looks(folder: str, looks: int) -> int:
        is_due = looks > 0 and looks & (looks - 1) == 0
        if is_due and is_probe(folder):
            return 0
        return looks + 1 if looks else 0


def is_probe(folder: str) -> bool:
    """Whether the thread of this folder in ``/proc`` is ours."""
    return procfs.read(f"{folder}/comm").strip() == NAME


def transferred(io: bytes) -> int:
    """Bytes read and written, of the text of an ``io`` file in ``/proc``."""
    return sum(map(int, re.findall(rb"(?:rchar|wchar|read_bytes|write_bytes): (\d+)", io)))
