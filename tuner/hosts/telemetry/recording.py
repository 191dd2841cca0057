"""What was seen of a launch so far, and where the counters stood at the last look."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.hosts.observe import Member
from tuner.hosts.procfs import read
from tuner.hosts.telemetry import host, processes
from tuner.hosts.telemetry.gpu import Gpus
from tuner.hosts.telemetry.host import Host, parse_wait
from tuner.hosts.telemetry.network import Burst, Meter
from tuner.hosts.telemetry.processes import ProcessSnapshot
from tuner.model import RANK_COLUMNS, Telemetry, Track

#: The usual time between two looks, and between two windows of the network, s.
LOOK_S = 0.5
#: At the start of a launch the next look comes after this part of its age: a short one gets
#: some too …
PART = 8
#: … but not before this time, s.
FIRST_S = 0.05

#: What each may cost, as a share of one core: together below 1 %.
LOOK_SHARE, WINDOW_SHARE, GPU_SHARE = 0.004, 0.0015, 0.001
#: What each may cost at once at the start, s.
CREDIT_S = 0.003

_NO_GPU: Row = dict.fromkeys(("gpu_share", "gpu_power_w", "gpu_memory_bytes"))
_NO_BURST: Row = dict.fromkeys(("network_burst_bytes_per_s", "network_busy_share"))


class Recording:
    """The recording of one launch, from its making on.

    Args:
        ranks: How many the launch has.
        gpus: Whether there is a GPU to look at.
        environ: The launch's environment.
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
        self._debt_s = 0.0
        self._turn = -1
        self._of_ranks: dict[int, tuple[float, ProcessSnapshot]] = {}
        self._most = points_for(ranks, len(RANK_COLUMNS))
        self._series: dict[int | None, Series] = {None: Series()}
        wait = parse_wait(read(f"{root}/proc/self/schedstat"))
        self._waits = wait is not None and any(wait)
        self._moved: Counter[str] = Counter()
        self._meter: Meter | None = None
        self._burst: Burst | None = None
        self._gpus = Gpus(environ) if gpus else None
        self._gpu_duty = Duty(GPU_SHARE, CREDIT_S)
        self._gaps: dict[str, None] = {}

    def run(self, members: Callable[[], Sequence[Member]], ended: threading.Event) -> None:
        """Look, again and again, until it is ended.

        Args:
            members: Gives the processes of the launch that were found last.
            ended: Set from another thread.
        """
        self.begin(members())
        looks, windows = Duty(LOOK_SHARE, CREDIT_S), Duty(WINDOW_SHARE, CREDIT_S)
        looks.next_s = windows.next_s = FIRST_S
        while not ended.wait(max(0.0, min(looks.next_s, windows.next_s) - self._age_s())):
            before_s = time.thread_time()
            if self._age_s() >= looks.next_s:
                self.look(members())
                period_s = min(LOOK_S, max(FIRST_S, self._age_s() / PART))
                looks.spend(self._age_s(), time.thread_time() - before_s, period_s)
            else:
                self.window(ended.is_set)
                windows.spend(self._age_s(), time.thread_time() - before_s, LOOK_S)

    def _age_s(self) -> float:
        return time.monotonic() - self._began_s

    # --- one look --------------------------------------------------------------------

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
        self._choose_interface(host.moved(before, now))
        row = host.host_row(
            before,
            now,
            trial_s=trial_s,
            others_s=self._others_s(host.others_s(before, now, trial_s), now.at_s - before.at_s),
            memory_bytes=_resident_bytes(members, after),
            interface=self._meter.interface if self._meter else "",
        )
        span = (before.at_s - self._began_s, now.at_s - self._began_s)
        self._series[None].add(*span, {**row, **self._burst_columns(), **self._gpu_columns()})
        self._last, self._look = now, after
        groups = processes.by_rank(after)
        for rank, group in groups.items():
            self._add(rank, group, end_s)
        if groups:  # one in turn: a process may be moved to another group at any time
            self._turn = (self._turn + 1) % len(groups)
            self._host.watch_groups(processes.root(list(groups.values())[self._turn])[0])

    def _others_s(self, unclamped_s: float | None, interval_s: float) -> float | None:
        """CPU time of others; what it lacks to nothing is taken from the next interval.

        The host and the processes are not read at the same moment: one interval has too much
        of them, the next too little.
        """
        if unclamped_s is None:
            return None
        total_s = unclamped_s + self._debt_s
        self._debt_s = max(-interval_s, min(0.0, total_s))
        return max(0.0, total_s)

    def _add(self, rank: int, group: ProcessSnapshot, end_s: float) -> None:
        begin_s, before = self._of_ranks.get(rank, (0.0, {}))
        row = processes.rank_row(before, group, end_s - begin_s, waits=self._waits)
        if rank not in self._series:
            self._series[rank] = Series(self._most)
        self._series[rank].add(begin_s, end_s, row)
        self._of_ranks[rank] = (end_s, group)

    def _burst_columns(self) -> Row:
        burst, self._burst = self._burst, None
        return _NO_BURST if burst is None else burst.columns()

    def _gpu_columns(self) -> Row:
        if self._gpus is None or self._age_s() < self._gpu_duty.next_s:
            return _NO_GPU
        before_s = time.thread_time()
        columns = self._gpus.columns()
        self._gpu_duty.spend(self._age_s(), time.thread_time() - before_s, LOOK_S)
        return columns

    # --- the network -----------------------------------------------------------------

    def window(self, ended: Callable[[], bool]) -> None:
        """Look at the interface that moved the most so far, every millisecond."""
        if self._meter is None:
            return
        try:
            found = self._meter.window(ended)
        except (OSError, ValueError) as error:
            self._gap_of_bursts(error)
            self._close_meter()
            return
        if found is not None:
            self._burst = found.joined(self._burst)

    def _choose_interface(self, moved: Mapping[str, int]) -> None:
        self._moved.update(moved)
        if not self._moved:
            return
        ((name, _),) = self._moved.most_common(1)
        if self._meter is not None and self._meter.interface == name:
            return
        self._close_meter()
        self._burst = None  # of another interface: mean and peak are of the same one
        try:
            self._meter = Meter(name, self._root)
        except OSError as error:
            self._gap_of_bursts(error)

    def _gap_of_bursts(self, error: Exception) -> None:
        self._gaps[f"Bursts of the network are not recorded: {error}."] = None

    def _close_meter(self) -> None:
        if self._meter is not None:
            self._meter.close()
        self._meter = None

    # --- the end ---------------------------------------------------------------------

    def close(self) -> None:
        """Let go of files and drivers."""
        self._close_meter()
        if self._gpus is not None:
            self._gpus.close()

    def telemetry(self, cost_cores: float) -> Telemetry:
        """What it came to."""
        name = socket.gethostname()
        made_up = host.made_up(self._first, self._last)
        tracks = [
            series.track(name, rank)
            for rank, series in sorted(self._series.items(), key=_host_first)
            if series.points
        ]
        if tracks and made_up:
            nothing = dict.fromkeys(host.CPU_COLUMNS, (None,) * len(tracks[0].times_s))
            tracks[0] = replace(tracks[0], columns={**tracks[0].columns, **nothing})
        return Telemetry(
            tracks=tuple(tracks),
            gaps=tuple(self._all_gaps(tracks_of_ranks=len(self._series) - 1)),
            cost_cores=round(cost_cores, 5),
            interface=self._moved.most_common(1)[0][0] if self._moved.total() else "",
        )

    def _all_gaps(self, tracks_of_ranks: int) -> list[str]:
        found = [*host.gaps(self._first, self._last), *self._gaps]
        if not self._waits:
            found.append("Waiting for a CPU is not recorded: there is no /proc/PID/schedstat.")
        if self._gpus is not None:
            found += self._gpus.gaps
        if tracks_of_ranks < self._ranks:
            found.append(
                f"Of {self._ranks} ranks {tracks_of_ranks} were seen: the launch ended within"
                f" {self._age_s():.1f} s, or the others ran on other hosts."
            )
        return found


def _resident_bytes(members: Sequence[Member], look: ProcessSnapshot) -> float:
    """Of the launch's own processes, which is all but the supervisor."""
    keys = {(member.pid, member.started) for member in members}
    return float(sum(seen.stat.resident_bytes for key, seen in look.items() if key in keys))


def _host_first(item: tuple[int | None, Series]) -> int:
    return -1 if item[0] is None else item[0]


#: So many intervals at most, and no fewer where there are many ranks; even numbers.
MOST_POINTS, LEAST_POINTS = 200, 20

#: So many values for all ranks of a host together.
MOST_VALUES = 40_000

#: Columns of which the greatest value is kept, not the mean.
PEAKS = frozenset({"network_burst_bytes_per_s", "memory_bytes", "gpu_memory_bytes", "threads"})

Row = Mapping[str, float | None]


@dataclass(frozen=True)
class Point:
    """One interval."""

    begin_s: float
    end_s: float
    row: Row

    @property
    def length_s(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s


def joined(first: Point, second: Point) -> Point:
    """Two intervals, one after the other, as one; both have the same columns."""
    row = {name: _join(name, first, second) for name in first.row}
    return Point(first.begin_s, second.end_s, row)


def _join(name: str, first: Point, second: Point) -> float | None:
    one, other = first.row[name], second.row[name]
    if one is None or other is None:
        return other if one is None else one
    if name in PEAKS:
        return max(one, other)
    length_s = first.length_s + second.length_s
    if not length_s:
        return (one + other) / 2
    # Written so that it lies between the two, whatever is rounded.
    return one + (other - one) * (second.length_s / length_s)


def points_for(ranks: int, columns: int) -> int:
    """How many intervals the track of each rank may have, an even number."""
    share = MOST_VALUES // max(1, ranks * columns)
    return max(LEAST_POINTS, min(MOST_POINTS, share)) // 2 * 2


class Series:
    """The intervals of one track, in the order they come.

    Args:
        most: So many are kept, an even number.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._stride = 1  # intervals as they come to one that is kept
        self._last = 0  # of these are in the last one
        self._points: list[Point] = []

    def add(self, begin_s: float, end_s: float, row: Row) -> None:
        """Add an interval, the same columns each time."""
        point = Point(begin_s, end_s, row)
        if self._points and self._last < self._stride:
            self._points[-1] = joined(self._points[-1], point)
            self._last += 1
            return
        if len(self._points) == self._most:
            self._points = halved(self._points)
            self._stride *= 2
        self._points.append(point)
        self._last = 1

    @property
    def points(self) -> Sequence[Point]:
        """What is kept so far."""
        return self._points

    def track(self, host: str, rank: int | None) -> Track:
        """As a track, the values rounded to four digits."""
        names = self._points[0].row if self._points else ()
        columns = {name: tuple(_short(p.row[name]) for p in self._points) for name in names}
        return Track(host, rank, tuple(round(p.end_s, 3) for p in self._points), columns)


def halved(points: Sequence[Point]) -> list[Point]:
    """Each two neighbours as one; a last one that has none stays as it is."""
    pairs = [joined(*pair) for pair in zip(points[::2], points[1::2], strict=False)]
    return pairs + list(points[len(pairs) * 2 :])


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


class Duty:
    """A purse that fills as time passes and pays for each turn afterwards.

    Over any stretch of time the turns cost at most ``share`` of it, and ``credit_s`` with the
    cost of one turn once.

    Args:
        share: Of one core.
        credit_s: So much is in the purse at first, and never more: the first turns come quickly.
    """

    def __init__(self, share: float, credit_s: float) -> None:
        self._share = share
        self._credit_s = credit_s
        self._purse_s = credit_s
        self._filled_s = 0.0
        self.next_s = 0.0

    def spend(self, now_s: float, cost_s: float, period_s: float) -> None:
        """Note what a turn cost that ends now; the next comes after the period or later.

        Args:
            now_s: Seconds that only go forward, from 0.
            cost_s: CPU time of the turn.
            period_s: The time to the next turn where money is no matter.
        """
        earned_s = (now_s - self._filled_s) * self._share
        self._purse_s = min(self._credit_s, self._purse_s + earned_s) - cost_s
        self._filled_s = now_s
        self.next_s = now_s + max(period_s, -self._purse_s / self._share)
