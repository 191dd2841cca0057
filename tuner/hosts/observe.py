"""Observes what a trial's ranks really run: any program by ``/proc``, and Python by the probe.

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

from tuner.hosts import procfs
from tuner.hosts.probe import Report, probe_folder, read_reports
from tuner.hosts.procfs import TICKS, Stat
from tuner.model import Observation, RankView

#: The variable by which `tune` gives a rank to a process that no launcher starts.
OWN_RANK = "TUNE_RANK"
#: Where the launchers of Open MPI, PMIx and Hydra say which rank a process is, and of how many.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", OWN_RANK)
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
#: Where torchrun says the same. Clusters set the first two for every process of a job: they count
#: only in one that torchrun has started, which has the third.
TORCHRUN_RANK, TORCHRUN_SIZE, TORCHRUN = "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"

#: A rank or a size; a variable of a longer number says something else.
_NUMBER = re.compile(r"[0-9]{1,9}")

#: Files in ``/proc/PID/maps`` that obey the variables of a number of threads (OpenMP, a BLAS), and
#: interpreters, whose modules may obey them.
_THREADED = re.compile(
    rb"/[^/\n]*(?:omp(?!i)[^/\n]*\.so|craymp|xlsmp|libsci|libessl|armpl|blas|blis|mkl"
    rb"|python|pypy|perl|ruby|jvm|java|julia|libR\.)[^/\n]*$",
    re.MULTILINE,
)

#: A process is looked at again for libraries that are loaded late: once in this many samples.
_LOOK_AGAIN = 16
#: Its open files are looked at in each of this many first samples, then once in this many.
_FIRST_FOR_FILES, _AGAIN_FOR_FILES = 16, 4

#: Each launch has a folder of its own for temporary files, with such a name.
_TEMPORARY = re.compile(r"/tune-[^/]{16}/")
#: At most this many files that a launch writes are noted.
MOST_WRITTEN = 50


class Member(NamedTuple):
    """A process of a trial: ``started`` (clock ticks since boot) tells it from a later one."""

    pid: int
    started: int
    rank: int | None  # None: the launcher's own


@dataclass
class _RankNotes:
    """What was observed of one rank so far; ``root`` is its own process."""

    root: Stat
    world_size: int | None
    threads: int = 0
    children: int = 0
    affinity: tuple[int, ...] = ()
    mapped: bool = False  # the libraries of one of its processes could be read
    has_opencv: bool = False  # OpenCV is among them
    is_threaded: bool = False  # one that obeys OMP_NUM_THREADS, or may, is among them
    newest_s: float = 0.0  # when its latest process started, since boot


class Watcher:
    """Samples the processes of one trial, cheaply: one read of ``stat`` a process and sample.

    The probe's reports are in the trial's own ``folder``; ``proc`` is the mounted procfs.
    """

    def __init__(self, folder: Path, proc: Path = Path("/proc")) -> None:
        self._folder = folder
        self._proc = str(proc)
        self._identities: dict[tuple[int, int], tuple[int, int | None]] = {}
        self._ranks: dict[int, _RankNotes] = {}
        self._sample_counts: dict[tuple[int, int, str], int] = {}
        self._own_folders = f"{folder}/", "/dev/", "/proc/", "/sys/"
        self._memory_bytes = 0  # of all processes together, the most of any sample
        self._written: set[str] = set()  # files outside of the trial's folder, open for writing
        #: The processes of the last sample; another thread may read them at any time.
        self.members: tuple[Member, ...] = ()

    def sample(self, pids: Iterable[int]) -> None:
        """Look at the live processes ``pids`` of the trial; those that have ended are left out."""
        groups: dict[int, list[Stat]] = {}
        members = []
        stats = {pid: stat for pid in pids if (stat := procfs.stat(pid, self._proc)) is not None}
        # By age: a process comes after its parent, and a rank's own process, the oldest, before
        # the others, which inherited the variable from it.
        for pid, stat in sorted(stats.items(), key=lambda item: (item[1].started, item[0])):
            rank, world_size = self._identity(stat, stats) or (None, None)
            members.append(Member(pid, stat.started, rank))
            notes = None
            if rank is not None:
                groups.setdefault(rank, []).append(stat)
                notes = self._ranks.setdefault(rank, _RankNotes(stat, world_size))
            self._look_at_files(stat)
            if notes is not None and not (notes.has_opencv and notes.is_threaded):
                self._look_at_libraries(stat, notes)
        self.members = tuple(members)
        resident_bytes = sum(stat.resident_bytes for stat in stats.values())
        self._memory_bytes = max(self._memory_bytes, resident_bytes)
        for rank, group in groups.items():
            notes, root = self._ranks[rank], group[0]
            is_root = root.key == notes.root.key
            notes.threads = max(notes.threads, *(stat.threads for stat in group))
            notes.children = max(notes.children, len(group) - is_root)  # all but the root
            notes.newest_s = max(notes.newest_s, *(stat.started / TICKS for stat in group))
            if is_root:
                with contextlib.suppress(OSError):  # it has ended
                    notes.affinity = tuple(sorted(os.sched_getaffinity(root.pid)))

    def _look_at_files(self, stat: Stat) -> None:
        """Note the files that a process has open for writing; more rarely later: it costs a ms.

        A process that has become another program (``exec``) is looked at as a new one.
        """
        process = *stat.key, stat.name
        count = self._sample_counts[process] = self._sample_counts.get(process, 0) + 1
        if count > _FIRST_FOR_FILES and count % _AGAIN_FOR_FILES:
            return
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            for entry in os.scandir(f"{self._proc}/{stat.pid}/fd"):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mode & modes.S_IWUSR:
                        path = os.readlink(entry.path)  # noqa: PTH115 - three times as fast
                        is_own = path.startswith(self._own_folders) or _TEMPORARY.search(path)
                        if path.startswith("/") and not is_own:
                            self._written.add(path)

    def _look_at_libraries(self, stat: Stat, notes: _RankNotes) -> None:
        """Note whether a rank has OpenCV or a threaded library mapped; less often as it ages."""
        count = self._sample_counts[(*stat.key, stat.name)]
        # A loader worker may live for seconds, and load OpenCV at any moment.
        is_early = count <= _FIRST_FOR_FILES and not notes.has_opencv
        if not is_early and count & (count - 1) and count % _LOOK_AGAIN:
            return  # the number of this sample is neither a power of two nor a multiple of 16
        maps = procfs.read(f"{self._proc}/{stat.pid}/maps")
        if not maps:  # not ours to read, which may hide such a library, or it has ended
            newer_stat = procfs.stat(stat.pid, self._proc)
            notes.is_threaded |= newer_stat is not None and not newer_stat.dead
        notes.mapped |= bool(maps)
        notes.has_opencv |= b"opencv" in maps or b"/cv2" in maps
        # A program that is linked statically, which has no C library mapped, may hold either.
        is_static = bool(maps) and b"/libc" not in maps and b"/ld-" not in maps
        notes.is_threaded |= is_static or _THREADED.search(maps) is not None

    def ranks(self) -> dict[int, int | None]:
        """Return the rank of each process of the last sample."""
        return {member.pid: member.rank for member in self.members}

    def _identity(self, stat: Stat, stats: Mapping[int, Stat]) -> tuple[int, int | None] | None:
        """Return the rank and world size in a process's environment; None for the launcher's own.

        Without them those of its parent count: a program may write over its environment (to show a
        title in ``ps``), as do its children. Only ranks are remembered: between fork and exec a
        rank still has the environment of its launcher.
        """
        identity = self._identities.get(stat.key)
        if identity is None:
            rank, size = rank_and_size(procfs.read(f"{self._proc}/{stat.pid}/environ"))
            parent = stats.get(stat.parent)
            if rank is not None:
                identity = rank, size
            elif parent is not None:
                identity = self._identities.get(parent.key)
            if identity is not None:
                self._identities[stat.key] = identity
        return identity

    def result(self) -> Observation:
        """Return all that was observed so far, joined with the reports of the probe."""
        reports = read_reports(probe_folder(self._folder))
        views = (
            self._view(rank, reports.get(rank), self._ranks.get(rank))
            for rank in sorted({*self._ranks, *reports})
        )
        written = tuple(sorted(self._written)[:MOST_WRITTEN])
        return Observation(tuple(views), memory_bytes=self._memory_bytes, written=written)

    def _view(self, rank: int, report: Report | None, notes: _RankNotes | None) -> RankView:
        view = report.view if report else RankView(rank, threads=0, children=0, affinity=())
        if notes is None:
            return replace(view, reported=True)
        # A rank with a process that started after the report went on: the report was not of the
        # program. The start of a process is given to a tick, rounded down.
        went_on = report is not None and notes.newest_s + 1 / TICKS > report.ended_s
        return replace(
            view,
            threads=notes.threads,
            children=notes.children,
            affinity=notes.affinity or view.affinity,
            world_size=notes.world_size if view.world_size is None else view.world_size,
            opencv_loaded=notes.has_opencv,
            mapped=notes.mapped,
            ignores_thread_variables=notes.mapped and not notes.is_threaded and not view.pools,
            reported=report is not None and (report.is_program or report.pid == notes.root.pid),
            uncaught="" if went_on else view.uncaught,
        )


def rank_and_size(environ: bytes) -> tuple[int | None, int | None]:
    """Return the rank and world size in a process's environment, ``None`` for what it lacks."""
    lines = environ.decode("utf-8", "replace").split("\0")
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    names_of_both: list[tuple[str, ...]] = [RANK_VARIABLES, SIZE_VARIABLES]
    if TORCHRUN in variables:
        names_of_both = [(*RANK_VARIABLES, TORCHRUN_RANK), (*SIZE_VARIABLES, TORCHRUN_SIZE)]
    rank, size = (
        next((int(variables[n]) for n in names if _NUMBER.fullmatch(variables.get(n, ""))), None)
        for names in names_of_both
    )
    return rank, size
