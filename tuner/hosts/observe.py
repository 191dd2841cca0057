"""Sees what a trial's ranks really run: from ``/proc`` for any program, and by the probe in Python.

The probe reports when a rank ends (:mod:`tuner.hosts.probe`); ``/proc`` is sampled meanwhile. Both
are joined into one `Observation`.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat as modes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import procfs, thread_variables
from tuner.hosts.probe import probe_folder, read_reports
from tuner.hosts.procfs import TICKS, Stat
from tuner.model import Observation, RankView

#: Where the launchers of Open MPI, PMIx and Hydra say which rank a process is, and of how many.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
#: Where torchrun says so. Clusters set the two for every process of a job: they count only in
#: one that torchrun has started, which has the third.
TORCHRUN_RANK, TORCHRUN_SIZE, TORCHRUN = "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"

#: A rank or a size; a variable of a longer number says something else.
_NUMBER = re.compile(r"[0-9]{1,9}")


#: A process is looked at again for libraries that are loaded late: once in so many samples.
_LOOK_AGAIN = 16
#: It is looked at for files that it writes in each of so many first samples, then once in so many.
_FIRST_FOR_FILES, _AGAIN_FOR_FILES = 16, 4

#: So many files that a launch writes are noted.
MOST_WRITTEN = 50


class Member(NamedTuple):
    """A process of a trial: ``started`` (clock ticks since boot) tells it from a later one."""

    pid: int
    started: int
    rank: int | None  # None: the launcher's own


@dataclass
class _Rank:
    """What was seen of one rank so far; ``root`` is its own process."""

    root: Stat
    world_size: int | None
    threads: int = 0
    children: int = 0
    affinity: tuple[int, ...] = ()
    mapped: bool = False  # what one of its processes has mapped was looked at
    has_opencv: bool = False  # and held OpenCV
    newest_s: float = 0.0  # when its latest process started, since boot


class Watcher:
    """Samples the processes of one trial, cheaply: one read of ``stat`` a process and sample.

    Args:
        folder: The trial's own folder, where the probe's reports are.
        proc: The mounted procfs; another folder in tests.
    """

    def __init__(self, folder: Path, proc: Path = Path("/proc")) -> None:
        self._folder = folder
        self._proc = str(proc)
        self._identities: dict[tuple[int, int], tuple[int, int | None]] = {}
        self._ranks: dict[int, _Rank] = {}
        self._samples: dict[tuple[int, int, str], int] = {}
        #: The code of all processes, the launcher's too: a script may pass a variable on.
        self._code: set[thread_variables.Code] = set()
        self._may_read = False  # the variables of a number of threads, as far as is known
        self._not_shared = f"{folder}/", "/dev/", "/proc/", "/sys/"
        self._memory_bytes = 0  # the most of any sample
        self._written: set[str] = set()  # files outside of the trial's folder, open for writing
        #: The processes of the last sample; another thread may read them at any time.
        self.members: tuple[Member, ...] = ()

    def sample(self, pids: Iterable[int]) -> None:
        """Look at the live processes `pids` of the trial; those that are gone are passed over."""
        groups: dict[int, list[Stat]] = {}
        members = []
        stats = {pid: stat for pid in pids if (stat := procfs.stat(pid, self._proc)) is not None}
        # By age: a process comes after its parent, and a rank's own process, the oldest, before
        # the others, which inherited the variable from it.
        for pid, stat in sorted(stats.items(), key=lambda item: (item[1].started, item[0])):
            identity = self._identity(stat, stats)
            members.append(Member(pid, stat.started, identity[0] if identity else None))
            if identity is not None:
                rank, world_size = identity
                groups.setdefault(rank, []).append(stat)
                self._ranks.setdefault(rank, _Rank(stat, world_size))
        self.members = tuple(members)
        resident_bytes = sum(stat.resident_bytes for stat in stats.values())
        self._memory_bytes = max(self._memory_bytes, resident_bytes)
        for member in members:
            noted = None if member.rank is None else self._ranks[member.rank]
            self._look_at_process(stats[member.pid], noted)
        for rank, group in groups.items():
            noted, root = self._ranks[rank], group[0]
            is_root = (root.started, root.pid) == (noted.root.started, noted.root.pid)
            noted.threads = max(noted.threads, *(stat.threads for stat in group))
            noted.children = max(noted.children, len(group) - is_root)
            noted.newest_s = max(noted.newest_s, *(stat.started / TICKS for stat in group))
            if is_root:
                with contextlib.suppress(OSError):  # it has ended
                    noted.affinity = tuple(sorted(os.sched_getaffinity(root.pid)))

    def _look_at_process(self, stat: Stat, noted: _Rank | None) -> None:
        """See what a process writes, and, ever more rarely, maps: that costs a millisecond.

        A process that has become another program (``exec``) is looked at from the start.
        """
        process = stat.pid, stat.started, stat.name
        count = self._samples[process] = self._samples.get(process, 0) + 1
        if count <= _FIRST_FOR_FILES or count % _AGAIN_FOR_FILES == 0:
            self._look_at_files(stat.pid)
        if count & (count - 1) and count % _LOOK_AGAIN:
            return
        if not self._may_read or (noted is not None and not noted.has_opencv):
            self._look_at_libraries(stat, noted)

    def _look_at_files(self, pid: int) -> None:
        """Note the files that a process has open for writing."""
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            for entry in os.scandir(f"{self._proc}/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mode & modes.S_IWUSR:
                        path = os.readlink(entry.path)  # noqa: PTH115 - three times as fast
                        if path.startswith("/") and not path.startswith(self._not_shared):
                            self._written.add(path)

    def _look_at_libraries(self, stat: Stat, noted: _Rank | None) -> None:
        """See what a process has mapped."""
        folder = f"{self._proc}/{stat.pid}"
        maps = procfs.read(f"{folder}/maps")
        if noted is not None:
            noted.mapped |= bool(maps)
            noted.has_opencv |= b"opencv" in maps or b"/cv2" in maps
        if self._may_read:
            return
        self._code |= thread_variables.mapped_code(maps)
        may_read = not maps or thread_variables.script_may_read(folder)
        now = procfs.stat(stat.pid, self._proc) if may_read else None
        self._may_read = now is not None and not now.dead  # one that has ended shows nothing

    def ranks(self) -> dict[int, int | None]:
        """The rank of each process of the last sample."""
        return {member.pid: member.rank for member in self.members}

    def _identity(self, stat: Stat, stats: Mapping[int, Stat]) -> tuple[int, int | None] | None:
        """The rank and world size in a process's environment; None for the launcher's own.

        If it does not tell, its parent's counts: a program may write over its environment (to
        show a title in ``ps``), as do its children. Only ranks are remembered: between fork and
        exec a rank still has its launcher's.
        """
        identity = self._identities.get((stat.pid, stat.started))
        if identity is None:
            environ = _variables(procfs.read(f"{self._proc}/{stat.pid}/environ"))
            torchrun = TORCHRUN in environ
            rank = _first_number(environ, (*RANK_VARIABLES, *((TORCHRUN_RANK,) * torchrun)))
            size = _first_number(environ, (*SIZE_VARIABLES, *((TORCHRUN_SIZE,) * torchrun)))
            parent = stats.get(stat.parent)
            if rank is not None:
                identity = rank, size
            elif parent is not None:
                identity = self._identities.get((parent.pid, parent.started))
            if identity is not None:
                self._identities[stat.pid, stat.started] = identity
        return identity

    def result(self) -> Observation:
        """Everything seen so far, joined with the reports of the probe."""
        folder = probe_folder(self._folder)
        reports = read_reports(folder)
        views = []
        may_read = self._may_read or thread_variables.code_may_read(self._code)
        for rank in sorted({*self._ranks, *reports}):
            report, rank_state = reports.get(rank), self._ranks.get(rank)
            view = report.view if report else RankView(rank, 0, 0, ())
            if rank_state is not None:
                view = replace(
                    view,
                    threads=rank_state.threads,
                    children=rank_state.children,
                    affinity=rank_state.affinity or view.affinity,
                    world_size=rank_state.world_size
                    if view.world_size is None
                    else view.world_size,
                )
            is_of_rank = report is not None and (
                report.is_program or rank_state is None or report.pid == rank_state.root.pid
            )
            loaded = (folder / f"rank-{rank}.cv2").exists() or (
                rank_state is not None and rank_state.has_opencv
            )
            mapped = rank_state is not None and rank_state.mapped
            # What started afterwards went on without it: it was not the program.
            # When a process started is known to a tick, rounded down.
            newest_s = 0.0 if rank_state is None else rank_state.newest_s + 1 / TICKS
            went_on = report is not None and newest_s > report.ended_s
            view = replace(
                view,
                opencv_loaded=loaded,
                mapped=mapped,
                ignores_thread_variables=mapped and not may_read and not view.pools,
                reported=is_of_rank,
                uncaught="" if went_on else view.uncaught,
            )
            views.append(view)
        written = tuple(sorted(self._written)[:MOST_WRITTEN])
        return Observation(tuple(views), memory_bytes=self._memory_bytes, written=written)


def _variables(environ: bytes) -> dict[str, str]:
    lines = environ.decode("utf-8", "replace").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _first_number(environ: Mapping[str, str], names: Iterable[str]) -> int | None:
    values = (environ.get(name, "") for name in names)
    return next((int(value) for value in values if _NUMBER.fullmatch(value)), None)
