"""Records a launch while it runs, from a thread of its own, for less than 1 % of a core."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import counters
from tuner.hosts.counters import Burst, Host
from tuner.hosts.observe import Member
from tuner.hosts.procfs import read
from tuner.hosts.telemetry import processes
from tuner.hosts.telemetry.gpu import Gpus
from tuner.hosts.telemetry.processes import ProcessSnapshot
from tuner.model import RANK_COLUMNS, Telemetry, Track

#: The thread ends within milliseconds; one that hangs in a driver is left behind after this, s.
JOIN_S = 5.0

#: The usual time between two looks, and between two windows of the network, s.
LOOK_S = 0.5
#: At the start of a launch the next look comes after this part of its age: a short one gets
#: some too …
PART = 8
#: … but not before this time, s.
FIRST_S = 0.05

#: What each may cost, as a share of one core: together below 1 %.
LOOK_SHARE, WINDOW_SHARE = 0.005, 0.0015

_NO_GPU: Row = dict.fromkeys(("gpu_share", "gpu_power_w"))

#: What is made of ``/proc/stat``.
_CPU_COLUMNS = ("user_cores", "system_cores", "steal_cores", "iowait_cores", "others_cores")


@dataclass
class Sampler:
    """Records a launch from its entering to its leaving; `telemetry` is then what it came to.

    Args:
        members: Gives the processes of the launch that were found last.
        ranks: How many the launch has.
        gpus: Whether there is a GPU to look at.
        environ: The launch's environment.
    """

    members: Callable[[], Sequence[Member]]
    ranks: int
    gpus: bool
    environ: Mapping[str, str]
    telemetry: Telemetry = field(default_factory=Telemetry, init=False)

    def __enter__(self) -> Sampler:
        self._began_s = time.monotonic()
        self._ended = threading.Event()
        self._recording: Recording | None = None
        self._problem = ""
        self._cpu_s = 0.0
        # Whatever happens to it, it must not keep tune from ending.
        self._thread = threading.Thread(target=self._record, name="telemetry", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the machine has no more threads
            self._problem = str(error)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        passed_s = time.monotonic() - self._began_s
        if self._thread.is_alive():
            self._problem = "it did not end in time"
        elif self._recording is not None:
            self.telemetry = self._recording.telemetry(self._cpu_s / max(passed_s, 1e-3))
        if self._problem:
            gap = f"The recording broke off: {self._problem}."
            self.telemetry = replace(self.telemetry, gaps=(*self.telemetry.gaps, gap))

    def _record(self) -> None:
        try:
            self._recording = Recording(self.ranks, gpus=self.gpus, environ=self.environ)
            self._recording.run(self.members, self._ended)
        except Exception as error:  # no launch is lost for what would explain it
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            self._cpu_s = time.thread_time()


class Recording:
    """The recording of one launch, from its making on; arguments as for `Sampler`.

    Args:
        root: The tree that holds ``proc`` and ``sys``; another one in tests.
    """

    def __init__(
        self, ranks: int, *, gpus: bool, environ: Mapping[str, str], root: Path = Path("/")
    ) -> None:
        self._began_s = time.monotonic()
        self._root = root
        self._ranks = ranks
        self._host = Host(root)
        self._first = self._last = self._host.look()
        self._look: ProcessSnapshot = {}
        self._of_ranks: dict[int, tuple[float, ProcessSnapshot]] = {}
        self._most = points_for(ranks, len(RANK_COLUMNS))
        self._series: dict[int | None, Series] = {None: Series()}
        wait = processes.parse_wait(read(f"{root}/proc/self/schedstat"))
        self._waits = wait is not None and any(wait)
        self._moved: Counter[str] = Counter()
        self._interface = ""  # that moved the most so far
        self._burst: Burst | None = None
        self._gpus = Gpus(environ) if gpus else None
        self._gaps: dict[str, None] = {}

    def run(self, members: Callable[[], Sequence[Member]], ended: threading.Event) -> None:
        """Look, again and again, until it is ended; then let go of the GPUs' driver.

        Args:
            members: Gives the processes of the launch that were found last.
            ended: Set from another thread.
        """
        try:
            self.begin(members())
            next_look_s = next_window_s = FIRST_S
            while not ended.wait(max(0.0, min(next_look_s, next_window_s) - self._age_s())):
                before_s = time.thread_time()
                if self._age_s() >= next_look_s:
                    self.look(members())
                    period_s = min(LOOK_S, max(FIRST_S, self._age_s() / PART))
                    next_look_s = self._next_s(before_s, period_s, LOOK_SHARE)
                else:
                    self.window(ended.is_set)
                    next_window_s = self._next_s(before_s, LOOK_S, WINDOW_SHARE)
        finally:
            if self._gpus is not None:
                self._gpus.close()

    def _next_s(self, before_s: float, period_s: float, share: float) -> float:
        """When something is due again that began at ``before_s`` of the thread's CPU time."""
        return self._age_s() + max(period_s, (time.thread_time() - before_s) / share)

    def _age_s(self) -> float:
        return time.monotonic() - self._began_s

    def begin(self, members: Sequence[Member]) -> None:
        """Leave out what these processes have used so far: they ran before the recording began."""
        self._look = processes.look(members, {}, f"{self._root}/proc")
        begin_s = self._age_s()
        for rank, group in processes.by_rank(self._look).items():
            self._of_ranks[rank] = (begin_s, group)

    def look(self, members: Sequence[Member]) -> None:
        """Read all counters, and add an interval to each track."""
        before, now = self._last, self._host.look()
        after = processes.look(members, self._look, f"{self._root}/proc")
        end_s = self._age_s()
        trial_s = processes.used(self._look, after).cpu_s + processes.reaped_s(self._look, after)
        self._moved.update(counters.moved(before, now))
        busiest = self._moved.most_common(1)
        if busiest and busiest[0][0] != self._interface:
            self._interface, self._burst = busiest[0][0], None  # mean and peak are of the same one
        # The launch's own processes: all but the supervisor.
        own = {(member.pid, member.started) for member in members}
        resident = sum(process.stat.resident_bytes for key, process in after.items() if key in own)
        row = counters.host_row(
            before, now, trial_s=trial_s, memory_bytes=float(resident), interface=self._interface
        )
        burst, self._burst = self._burst, None
        row["network_burst_bytes_per_s"] = burst.most_bytes_per_s if burst else None
        row["network_busy_share"] = burst.busy_s / burst.looked_s if burst else None
        span = (before.at_s - self._began_s, now.at_s - self._began_s)
        self._series[None].add(*span, {**row, **(self._gpus.columns() if self._gpus else _NO_GPU)})
        self._last, self._look = now, after
        for rank, group in processes.by_rank(after).items():
            begin_s, then = self._of_ranks.get(rank, (0.0, {}))
            if rank not in self._series:
                self._series[rank] = Series(self._most)
                self._host.watch_groups(str(processes.root(group)[0]))
            columns = processes.rank_row(then, group, end_s - begin_s, waits=self._waits)
            self._series[rank].add(begin_s, end_s, columns)
            self._of_ranks[rank] = (end_s, group)

    def window(self, ended: Callable[[], bool]) -> None:
        """Look at the interface that moved the most so far, every millisecond."""
        if not self._interface:
            return
        burst = counters.window(self._interface, ended, self._root)
        if burst is not None:
            self._burst = burst.joined(self._burst) if self._burst else burst
        elif not ended():
            self._gaps[f"Bursts of {self._interface} are not recorded: no counters."] = None

    def telemetry(self, cost_cores: float) -> Telemetry:
        """What it came to."""
        name = socket.gethostname()
        host, *ranks = self._series.items()  # it comes first
        tracks = [
            series.track(name, rank) for rank, series in [host, *sorted(ranks)] if series.points
        ]
        if tracks and not counters.is_of_host(self._first, self._last):
            nothing = dict.fromkeys(_CPU_COLUMNS, (None,) * len(tracks[0].times_s))
            tracks[0] = replace(tracks[0], columns={**tracks[0].columns, **nothing})
        gaps = [*counters.gaps(self._first, self._last), *self._gaps]
        if not self._waits:
            gaps.append("Waiting for a CPU is not recorded: there is no /proc/PID/schedstat.")
        if self._gpus is not None:
            gaps += self._gpus.gaps
        if (rank_count := len(self._series) - 1) < self._ranks:
            gaps.append(
                f"Of {self._ranks} ranks {rank_count} were seen: the launch ended within"
                f" {self._age_s():.1f} s, or the others ran on other hosts."
            )
        return Telemetry(
            tracks=tuple(tracks),
            gaps=tuple(gaps),
            cost_cores=round(cost_cores, 5),
            interface=self._interface if self._moved.total() else "",
        )


#: This many intervals at most, and no fewer where there are many ranks; even numbers.
MOST_POINTS, LEAST_POINTS = 200, 20

#: This many values for all ranks of a host together.
MOST_VALUES = 40_000

#: Columns of which the greatest value is kept, not the mean.
PEAKS = frozenset({"network_burst_bytes_per_s", "memory_bytes", "threads"})

Row = Mapping[str, float | None]


class Point(NamedTuple):
    """One interval."""

    begin_s: float
    end_s: float
    row: Row


def joined(first: Point, second: Point) -> Point:
    """Two intervals, one after the other, as one; both have the same columns."""
    second_s, both_s = second.end_s - second.begin_s, second.end_s - first.begin_s
    row: dict[str, float | None] = {}
    for name, one in first.row.items():
        other = second.row[name]
        if one is None or other is None:
            row[name] = other if one is None else one
        elif name in PEAKS:
            row[name] = max(one, other)
        else:  # written so that it lies between the two, whatever is rounded
            row[name] = one + (other - one) * (second_s / both_s if both_s else 0.5)
    return Point(first.begin_s, second.end_s, row)


def points_for(ranks: int, columns: int) -> int:
    """How many intervals the track of each rank may have, an even number."""
    share = MOST_VALUES // max(1, ranks * columns)
    return max(LEAST_POINTS, min(MOST_POINTS, share)) // 2 * 2


class Series:
    """The intervals of one track, in the order they come.

    Args:
        most: This many are kept, an even number.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self.points: list[Point] = []
        self._most = most
        self._stride = 1  # intervals as they come to one that is kept
        self._last = 0  # of these are in the last one

    def add(self, begin_s: float, end_s: float, row: Row) -> None:
        """Add an interval, the same columns each time."""
        point = Point(begin_s, end_s, row)
        if self.points and self._last < self._stride:
            self.points[-1] = joined(self.points[-1], point)
            self._last += 1
            return
        if len(self.points) == self._most:
            # Each two neighbours as one; there is an even number of them.
            self.points = list(map(joined, self.points[::2], self.points[1::2]))
            self._stride *= 2
        self.points.append(point)
        self._last = 1

    def track(self, host: str, rank: int | None) -> Track:
        """As a track, the values rounded to four digits."""
        columns: dict[str, tuple[float | None, ...]] = {}
        for name in self.points[0].row:
            values = [point.row[name] for point in self.points]
            columns[name] = tuple(None if v is None else float(f"{v:.4g}") for v in values)
        return Track(host, rank, tuple(round(p.end_s, 3) for p in self.points), columns)
