"""Records a launch while it runs, from a thread of its own, for less than 1 % of a core."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tuner.hosts import counters, procfs
from tuner.hosts.observe import Member
from tuner.hosts.telemetry import processes
from tuner.hosts.telemetry.gpu import Gpus
from tuner.model import HOST_COLUMNS, RANK_COLUMNS, Telemetry, Track

#: The thread ends within milliseconds; one that hangs in a driver is left behind after this, s.
JOIN_S = 5.0

#: The least and the usual time between two looks at a launch, s.
FIRST_S, LOOK_S = 0.05, 0.5
#: A launch younger than this many usual times is looked at more often: after 1/8 of its age.
SHORT_PART = 8
#: A launch of hours is looked at more rarely: after 1/200 of its age.
LONG_PART = 200

#: What looking may cost, as a share of one core.
LOOK_SHARE = 0.005

#: The end of each interval, s since the recording began, with its values.
Rows = list[tuple[float, Mapping[str, float | None]]]


class Recorder:
    """Records a launch while the block runs; after it, `telemetry` holds the record.

    ``members`` gives the processes of the last sample of the launch, ``ranks`` is the number of its
    ranks, ``environ`` its environment, ``root`` the tree that holds ``proc`` and ``sys``.
    """

    def __init__(
        self,
        members: Callable[[], Sequence[Member]],
        *,
        ranks: int,
        gpus: bool,
        environ: Mapping[str, str],
        root: Path = Path("/"),
    ) -> None:
        self.telemetry = Telemetry()
        self.members, self._ranks = members, ranks
        self._proc, self._began_s = f"{root}/proc", time.monotonic()
        self._ended = threading.Event()
        # A daemon, so that a thread that hangs does not keep tune from ending.
        self._thread = threading.Thread(target=self._record, name="telemetry", daemon=True)
        self._gpu_environ = environ if gpus else None
        self._gpus: Gpus | None = None
        self._host = counters.CounterReader(root)
        self._first_counters = self._last_counters = self._host.look()
        self._processes: processes.ProcessSnapshot = {}
        self._host_rows: Rows = []
        self._rank_rows: dict[int, Rows] = {}

    def __enter__(self) -> Recorder:
        try:
            self._thread.start()
        except RuntimeError as error:  # the machine has no more threads
            self._break_off(str(error))
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        if self._thread.is_alive():
            self._break_off("it did not end in time")

    def _break_off(self, why: str) -> None:
        self.telemetry = Telemetry(gaps=(f"The recording broke off: {why}.",))

    def _record(self) -> None:
        """Look at the launch until the block ends, keep the telemetry, and close NVML."""
        try:
            self.begin()
            next_s = FIRST_S
            while not self._ended.wait(max(0.0, next_s - self._age_s())):
                before_s = time.thread_time()
                self.look()
                age_s = self._age_s()
                usual_s = max(FIRST_S, min(LOOK_S, age_s / SHORT_PART), age_s / LONG_PART)
                next_s = age_s + max(usual_s, (time.thread_time() - before_s) / LOOK_SHARE)
            self.telemetry = self.result(time.thread_time() / max(self._age_s(), 1e-3))
        except Exception as error:  # a launch counts without its telemetry, too
            self._break_off(f"{type(error).__name__}: {error}")
        finally:
            if self._gpus is not None:
                self._gpus.close()

    def _age_s(self) -> float:
        return time.monotonic() - self._began_s

    def begin(self) -> None:
        """Take the first snapshot: what processes used before it does not count."""
        if self._gpu_environ is not None:
            with suppress(ImportError):
                self._gpus = Gpus(self._gpu_environ)
        self._processes = processes.snapshot(self.members(), self._proc)

    def look(self) -> None:
        """Read all counters, and add an interval to the track of the host and of each rank."""
        counters_before, counters_now = self._last_counters, self._host.look()
        before, after = self._processes, processes.snapshot(self.members(), self._proc)
        end_s = self._age_s()
        use = processes.used(before, after)
        trial_s = use.user_s + use.system_s + processes.reaped_s(before, after)
        gpus = self._gpus.columns() if self._gpus else {}
        host_row = counters.host_row(counters_before, counters_now, trial_s)
        self._host_rows.append((end_s, host_row | gpus))
        ranks_before = processes.by_rank(before)
        for rank, group in processes.by_rank(after).items():
            if rank not in self._rank_rows:
                self._rank_rows[rank] = []
                self._host.watch_groups(str(processes.root(group)[0]))
            rows = self._rank_rows[rank]
            interval_s = end_s - (rows[-1][0] if rows else 0.0)
            row = processes.rank_row(ranks_before.get(rank, {}), group, interval_s)
            rows.append((end_s, row))
        self._last_counters, self._processes = counters_now, after

    def result(self, cost_cores: float) -> Telemetry:
        """Return the telemetry so far; ``cost_cores`` is what the recording has used."""
        unknown = set[str]()  # columns whose counters this kernel or container does not have
        if not counters.is_of_host(self._first_counters, self._last_counters):
            unknown |= {"user_cores", "system_cores", "steal_cores", "iowait_cores", "others_cores"}
        if not set(procfs.read(f"{self._proc}/self/schedstat").split()) - {b"0"}:
            unknown |= {"own_queue_threads", "children_queue_threads"}
        tracks = [_track(None, self._host_rows, unknown)] if self._host_rows else []
        tracks += [_track(rank, self._rank_rows[rank], unknown) for rank in sorted(self._rank_rows)]
        columns = {name: values for track in tracks for name, values in track.columns.items()}
        missing = [name for name, values in columns.items() if set(values) == {None}]
        descriptions = {**HOST_COLUMNS, **RANK_COLUMNS}
        gaps = [f"Not recorded: {descriptions[name]}." for name in missing]
        if self._gpu_environ is not None and self._gpus is None:
            gaps.append("Not recorded: GPUs. They need: pip install 'runtime-tuner[gpu]'.")
        if len(self._rank_rows) < self._ranks:
            gaps.append(
                f"Of {self._ranks} ranks {len(self._rank_rows)} were seen: the launch ended within"
                f" {self._age_s():.1f} s, or the others ran on other hosts."
            )
        return Telemetry(tuple(tracks), gaps=tuple(gaps), cost_cores=round(cost_cores, 5))


def _track(rank: int | None, rows: Rows, unknown: set[str]) -> Track:
    """Return the intervals as a track, the values rounded to four digits."""
    columns = {
        name: tuple(
            None if (value := row[name]) is None or name in unknown else float(f"{value:.4g}")
            for _, row in rows
        )
        for name in rows[0][1]
    }
    return Track(socket.gethostname(), rank, tuple(round(end_s, 3) for end_s, _ in rows), columns)
