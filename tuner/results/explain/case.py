"""All that the rules look at: a launch, and the means of what was recorded of it (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tuner.model import Load, Machine, Outcome, PhaseShare, RankView, Telemetry, Track
from tuner.search.throughput import startup_s

#: A shell that waits for its program uses at most so many cores.
SHELL_MOST_CORES = 0.05


@dataclass(frozen=True)
class RankFigures:
    """One rank: the means of its columns and its phases; what was not recorded is not there."""

    rank: int
    columns: Mapping[str, float]
    phases: Mapping[str, PhaseShare]
    host: str = ""  # empty if the job has one host

    def get(self, name: str) -> float:
        """Return a column's mean; 0 if it was not recorded."""
        return self.columns.get(name, 0.0)

    @property
    def own_cores(self) -> float:
        """Cores that the rank's own process used."""
        return self.get("own_user_cores") + self.get("own_system_cores")

    @property
    def own_runnable(self) -> float:
        """Threads of the rank's own process that ran or waited for a CPU, on average."""
        return self.own_cores + self.get("own_queue_threads")

    def busy(self, phase: str) -> float:
        """Return the share of its main thread's time in a phase, without waiting for a CPU."""
        share = self.phases.get(phase)
        return share.running + share.blocked if share else 0.0


@dataclass(frozen=True)
class Case:
    """A launch, as the rules see it: the means of what was recorded of its host and its ranks.

    A column of ``host`` that was not recorded is not there. ``cores`` are the CPUs that may be
    used. Of several hosts the one that is worst off in each respect counts: the others wait for it.
    ``others_by_host`` are the cores that other processes used on each.
    """

    host: Mapping[str, float]
    ranks: tuple[RankFigures, ...]
    cores: int
    load: Load | None
    views: tuple[RankView, ...]
    others_by_host: Mapping[str, float]

    @classmethod
    def of(cls, outcome: Outcome, machine: Machine) -> Case:
        """Take the means since the program began its work; of all if nothing was recorded then."""
        telemetry, since_s = outcome.telemetry or Telemetry(), startup_s(outcome.progress) or 0.0
        host: dict[str, float] = {}
        others_by_host: dict[str, float] = {}
        means_of_rank: dict[int, Mapping[str, float]] = {}
        host_of: dict[int, str] = {}
        for track in telemetry.tracks:
            means = _means(track, since_s)
            if track.rank is None:
                host |= {name: max(value, host.get(name, value)) for name, value in means.items()}
                if "others_cores" in means:
                    others_by_host[track.host] = means["others_cores"]
            elif means:
                means_of_rank[track.rank], host_of[track.rank] = means, track.host
        phases: dict[int, dict[str, PhaseShare]] = {}
        for share in telemetry.phases:
            phases.setdefault(share.rank, {})[share.phase] = share
        ranks = [
            RankFigures(
                rank,
                means_of_rank.get(rank, {}),
                phases.get(rank, {}),
                host_of.get(rank, "") if len({*host_of.values()}) > 1 else "",
            )
            for rank in sorted({*means_of_rank, *phases})
        ]
        return cls(
            host,
            tuple(_shell_as_its_children(rank, has_phases=bool(phases)) for rank in ranks),
            machine.cores,
            outcome.load,
            outcome.observation.ranks,
            others_by_host,
        )

    def get(self, name: str) -> float:
        """Return a column of the host; 0 if it was not recorded."""
        return self.host.get(name, 0.0)

    @property
    def probed(self) -> tuple[RankFigures, ...]:
        """The ranks that the probe has looked at from inside."""
        return tuple(rank for rank in self.ranks if rank.phases)

    @property
    def recorded(self) -> tuple[RankFigures, ...]:
        """The ranks whose processes were recorded."""
        return tuple(rank for rank in self.ranks if rank.columns)

    def most_on_a_host(self, figure: Callable[[RankFigures], float]) -> float:
        """Return the sum of a figure over the ranks on the host where that is greatest."""
        by_host: dict[str, float] = {}
        for rank in self.ranks:
            by_host[rank.host] = by_host.get(rank.host, 0.0) + figure(rank)
        return max(by_host.values(), default=0.0)

    def total(self, *names: str) -> float:
        """Return the sum of columns over the ranks on the host where that is greatest."""
        return self.most_on_a_host(lambda rank: sum(map(rank.get, names)))

    def time_in(self, phase: str, *parts: str) -> float:
        """Return the mean share of the main threads' time in a phase, or in some parts of it."""
        shares = [rank.phases[phase] for rank in self.probed if phase in rank.phases]
        total = sum(getattr(share, part) for share in shares for part in parts or ("share",))
        return float(total) / max(1, len(self.probed))

    def where(self, phase: str) -> str:
        """Return the line at which most of a phase's time was spent; empty if it is not known."""
        shares = [rank.phases[phase] for rank in self.probed if phase in rank.phases]
        return max(shares, key=lambda share: share.share).where if shares else ""

    @property
    def own_runnable(self) -> float:
        """Threads of the ranks themselves that ran or waited for a CPU, on average."""
        return self.most_on_a_host(lambda rank: rank.own_runnable)

    @property
    def children_runnable(self) -> float:
        """Threads of the ranks' child processes that ran or waited for a CPU, on average."""
        return self.total("children_cores", "children_queue_threads")

    @property
    def runnable(self) -> float:
        """Threads of the job that ran or waited for a CPU, on average."""
        return self.own_runnable + self.children_runnable

    @property
    def queue_share(self) -> float:
        """The share of the time of runnable threads of the job that they waited for a CPU."""
        waited = self.total("own_queue_threads", "children_queue_threads")
        return min(1.0, waited / self.runnable) if self.runnable > 0 else 0.0

    @property
    def worker_queue_share(self) -> float:
        """The share of a child process's time in which it waited for a CPU, on average."""
        processes = max(self.workers, self.children_runnable)
        waited = self.total("children_queue_threads")
        return min(1.0, waited / processes) if processes > 0 else 0.0

    @property
    def rank_queue_share(self) -> float:
        """The share of a rank's time in which threads of its own waited for a CPU, on average.

        If several threads want to run at once, it is the part of them that waited.
        """
        shares = [r.get("own_queue_threads") / max(1.0, r.own_runnable) for r in self.ranks]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def busy_cores(self) -> float:
        """CPUs of the host that were busy, whoever used them."""
        return self.get("user_cores") + self.get("system_cores")

    @property
    def others_cores(self) -> float:
        """CPUs that other processes used.

        The recorder counts a process of the launch as another's until it finds it. The
        load of the launch, reckoned from the processes that ``tune`` waited for, has no such error.
        """
        readings = [self.host["others_cores"]] if "others_cores" in self.host else []
        readings += [self.load.others_cores] if self.load else []
        return min(readings, default=0.0)

    @property
    def unassigned_cores(self) -> float:
        """CPUs that were busy for neither the ranks nor other processes: the figures do not add up.

        The job has processes then that were not seen to be a rank's.
        """
        if not {"others_cores", "user_cores"} <= self.host.keys():
            return 0.0
        ranks = self.total("own_user_cores", "own_system_cores", "children_cores")
        return max(0.0, self.busy_cores - self.others_cores - ranks)

    @property
    def idle_cores(self) -> float:
        """CPUs that nobody used; 0 if that was not recorded."""
        return max(0.0, self.cores - self.busy_cores) if "user_cores" in self.host else 0.0

    @property
    def others_runnable(self) -> float:
        """Threads of other processes that ran or waited for a CPU, on average.

        Threads in the same queues wait equally long, so the job's wait tells how many of the
        others wanted to run. If groups of processes share the CPUs that is too many: the runnable
        threads of the host, less those of the job, are the most that it can be.
        """
        runnable = self.others_cores / max(1e-3, 1 - self.queue_share)  # never by 0
        on_host = self.host.get("runnable_threads")
        if on_host is not None:
            runnable = min(runnable, on_host - self.runnable)
        return max(self.others_cores, runnable)

    @property
    def workers(self) -> int:
        """Child processes of all ranks on a host, the most at once."""
        children = {view.rank: view.children for view in self.views}
        unrecorded = children.keys() - {rank.rank for rank in self.ranks}
        recorded = self.most_on_a_host(lambda rank: children.get(rank.rank, 0))
        return round(recorded) + sum(children[rank] for rank in unrecorded)

    @property
    def shortage(self) -> float:
        """The share of a rank's time that was lost as threads waited for a CPU, on average.

        A main thread's own waiting was measured from inside. Where it waits for others (its
        workers, the other ranks, threads of a parallel loop), these waited for a CPU in turn
        for as large a part of their time.
        """
        queued = sum(self.time_in(phase, "queued") for phase in ("loader", "exchange", "compute"))
        by_ranks = self.time_in("exchange", "running", "blocked")
        by_ranks += self.time_in("compute", "blocked")
        by_workers = self.time_in("loader", "blocked")
        waits = by_workers * self.worker_queue_share + by_ranks * self.rank_queue_share
        return min(1.0, max(self.rank_queue_share, queued + waits))


def _shell_as_its_children(rank: RankFigures, *, has_phases: bool) -> RankFigures:
    """Return the rank; a shell's children count as it, and without a probe any rank's do."""
    busy = sum(share.running + share.queued for share in rank.phases.values())
    if has_phases and (busy < SHELL_MOST_CORES or rank.own_runnable >= SHELL_MOST_CORES):
        return rank
    columns = dict(rank.columns)
    for own_column, child_column in (
        ("own_user_cores", "children_cores"),
        ("own_queue_threads", "children_queue_threads"),
    ):
        if child_column in columns:
            columns[own_column] = columns.get(own_column, 0.0) + columns.pop(child_column)
    return replace(rank, columns=columns)


def _means(track: Track, since_s: float) -> dict[str, float]:
    """Return the mean of each column, by time; a column without a value is not there."""
    spans = [*pairwise((0.0, *track.times_s))]
    weights = [max(0.0, end_s - max(begin_s, since_s)) for begin_s, end_s in spans]
    if not any(weights):
        weights = [end_s - begin_s for begin_s, end_s in spans]
    means = {name: _mean(values, weights) for name, values in track.columns.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    pairs = [(v, weight) for v, weight in zip(values, weights, strict=False) if v is not None]
    total_s = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total_s if total_s > 0 else None
