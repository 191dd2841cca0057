"""All that the rules look at: a launch, and the means of what was recorded of it (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tuner.model import Load, Machine, Outcome, PhaseShare, RankView, Telemetry, Track
from tuner.search.throughput import startup_s

#: What a shell that waits for its program uses at the most.
SHELL_MOST_CORES = 0.05


@dataclass(frozen=True)
class RankFigures:
    """One rank: the means of its columns and its phases; what was not seen is not there."""

    rank: int
    columns: Mapping[str, float]
    phases: Mapping[str, PhaseShare]
    host: str = ""  # empty: there is but one

    def get(self, name: str) -> float:
        """A column's mean; 0 if it was not seen."""
        return self.columns.get(name, 0.0)

    @property
    def own(self) -> float:
        """Cores that the rank's own process used."""
        return self.get("own_user_cores") + self.get("own_system_cores")

    @property
    def own_runnable(self) -> float:
        """Its threads that ran or waited for a CPU, on average."""
        return self.own + self.get("own_queue_threads")

    def share(self, phase: str) -> float:
        """Of its main thread's time, that in a phase."""
        return self.phases[phase].share if phase in self.phases else 0.0


@dataclass(frozen=True)
class Case:
    """A launch, as the rules see it: the means of what was recorded of its host and its ranks.

    A column of ``host`` that was not seen is not there. ``cores`` are the CPUs that may be used;
    ``views`` what was seen of the ranks besides. Of several hosts the one that is worst off in each
    respect counts: the others wait for it. ``others_by_host`` are the cores that other processes
    used on each.
    """

    host: Mapping[str, float]
    ranks: tuple[RankFigures, ...]
    cores: int
    load: Load | None = None
    views: tuple[RankView, ...] = ()
    others_by_host: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, outcome: Outcome, machine: Machine) -> Case:
        """The means since the program itself began, or of all if nothing was recorded since."""
        telemetry, since_s = outcome.telemetry or Telemetry(), startup_s(outcome.progress) or 0.0
        host: dict[str, list[float]] = {}
        ranks: dict[int, Mapping[str, float]] = {}
        hosts: dict[int, str] = {}
        others: dict[str, float] = {}
        for track in telemetry.tracks:
            columns = _means(track, since_s)
            if track.rank is None:
                for name, value in columns.items():
                    host.setdefault(name, []).append(value)
                if "others_cores" in columns:
                    others[track.host] = columns["others_cores"]
            elif columns:
                ranks[track.rank], hosts[track.rank] = columns, track.host
        phases: dict[int, dict[str, PhaseShare]] = {}
        for share in telemetry.phases:
            phases.setdefault(share.rank, {})[share.phase] = share
        return cls(
            {name: max(values) for name, values in host.items()},
            tuple(
                _rank(
                    RankFigures(
                        rank,
                        ranks.get(rank, {}),
                        phases.get(rank, {}),
                        hosts.get(rank, "") if len({*hosts.values()}) > 1 else "",
                    ),
                    python=bool(phases),
                )
                for rank in sorted({*ranks, *phases})
            ),
            machine.cores,
            outcome.load,
            outcome.observation.ranks,
            others,
        )

    def get(self, name: str) -> float:
        """A column of the host; 0 if it was not seen."""
        return self.host.get(name, 0.0)

    @property
    def inside(self) -> tuple[RankFigures, ...]:
        """The ranks that were seen from inside."""
        return tuple(rank for rank in self.ranks if rank.phases)

    def total(self, name: str) -> float:
        """A column of the ranks on a host, in all."""
        return self._most(lambda rank: rank.get(name))

    def _most(self, figure: Callable[[RankFigures], float]) -> float:
        """A figure of the ranks on the host where it is greatest, in all."""
        by_host: dict[str, float] = {}
        for rank in self.ranks:
            by_host[rank.host] = by_host.get(rank.host, 0.0) + figure(rank)
        return max(by_host.values(), default=0.0)

    def phase(self, phase: str, part: str = "share") -> float:
        """What a phase took of the main threads' time, on average over the ranks."""
        shares = [rank.phases.get(phase) for rank in self.inside]
        return float(sum(getattr(share, part) for share in shares if share) / max(1, len(shares)))

    def where(self, phase: str) -> str:
        """The line at which most of a phase's time was spent; empty if it is not known."""
        shares = [rank.phases[phase] for rank in self.inside if phase in rank.phases]
        return max(shares, key=lambda share: share.share).where if shares else ""

    @property
    def own_runnable(self) -> float:
        """Threads of the ranks themselves that ran or waited for a CPU, on average."""
        return self._most(lambda rank: rank.own_runnable)

    @property
    def children_runnable(self) -> float:
        """The same of their child processes."""
        return self.total("children_cores") + self.children_waited

    @property
    def runnable(self) -> float:
        """Return how many threads of the job ran or waited for a CPU, on average."""
        return self.own_runnable + self.children_runnable

    @property
    def queue_share(self) -> float:
        """Of the time in which threads of the trial could have run, that without a CPU."""
        waited = self.total("own_queue_threads") + self.children_waited
        return min(1.0, waited / self.runnable) if self.runnable > 0 else 0.0

    @property
    def children_waited(self) -> float:
        """Threads of the child processes that waited for a CPU."""
        return self.total("children_queue_threads")

    @property
    def worker_queue_share(self) -> float:
        """Of a child process's time, that waiting for a CPU, on average."""
        processes = max(self.workers, self.children_runnable)
        return min(1.0, self.children_waited / processes) if processes > 0 else 0.0

    @property
    def rank_queue_share(self) -> float:
        """Of a rank's time, that in which threads of its own waited for a CPU, on average.

        Of several threads at once, the part of them that waited.
        """
        ranks = self.ranks
        shares = [rank.get("own_queue_threads") / max(1.0, rank.own_runnable) for rank in ranks]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def busy_cores(self) -> float:
        """CPUs of the host that were busy, whoever used them."""
        return self.get("user_cores") + self.get("system_cores")

    @property
    def unassigned_cores(self) -> float:
        """CPUs of the host that were busy, but neither by ranks that were seen nor by others.

        Host and ranks do not add up then: the job has processes that were not seen as a rank's.
        """
        if not {"others_cores", "user_cores"} <= self.host.keys():
            return 0.0
        ranks = self._most(lambda rank: rank.own + rank.get("children_cores"))
        return max(0.0, self.busy_cores - self.others_cores - ranks)

    @property
    def others_cores(self) -> float:
        """CPUs that other processes used.

        A process of the launch that is found late counts as another's until then, but not in
        the accounts of the whole launch, which come from what ``tune`` has waited for.
        """
        readings = [self.host["others_cores"]] if "others_cores" in self.host else []
        readings += [self.load.others_cores] if self.load else []
        return min(readings, default=0.0)

    @property
    def idle_cores(self) -> float:
        """CPUs that nobody used; 0 if that was not seen."""
        if "user_cores" not in self.host:
            return 0.0
        return max(0.0, self.cores - self.busy_cores)

    @property
    def others_runnable(self) -> float:
        """Threads of other processes that ran or waited for a CPU, on average.

        Who waits in the same queues gets the same part of what it wants: so many more than ran
        wanted to as with the trial's own (low priority then counts as little). Where groups of
        processes share the CPUs, not threads, that is too much: there are no more than run.
        """
        used = self.others_cores
        runnable = used / max(1e-3, 1 - self.queue_share)
        on_host = self.host.get("runnable_threads")
        if on_host is not None:
            runnable = min(runnable, on_host - self.runnable)
        return max(used, runnable)

    @property
    def forked(self) -> bool:
        """Whether the ranks' work is done by several processes with one thread each."""
        return any(view.children > 1 for view in self.views) and all(
            view.threads <= 1 for view in self.views
        )

    @property
    def workers(self) -> int:
        """Child processes of all ranks on a host, as many as were seen at once."""
        children = {view.rank: view.children for view in self.views}
        unseen = sum(children[rank] for rank in children.keys() - {r.rank for r in self.ranks})
        return unseen + round(self._most(lambda rank: children.get(rank.rank, 0)))

    @property
    def shortage(self) -> float:
        """Of a rank's time, what went by because threads waited for a CPU, on average.

        A main thread's own waiting was measured from inside. Where it waits for others (its
        workers, the other ranks, threads of a parallel loop), these waited for a CPU in turn
        for as large a part of their time.
        """
        queued = sum(self.phase(phase, "queued") for phase in ("loader", "exchange", "compute"))
        exchange = self.phase("exchange", "running") + self.phase("exchange", "blocked")
        waits = (
            self.phase("loader", "blocked") * self.worker_queue_share
            + (exchange + self.phase("compute", "blocked")) * self.rank_queue_share
        )
        return min(1.0, max(self.rank_queue_share, queued + waits))


def _rank(rank: RankFigures, *, python: bool) -> RankFigures:
    """One rank; if it is a shell's script, the children do its work and count as the rank."""
    busy = sum(share.running + share.queued for share in rank.phases.values())
    if python and (busy < SHELL_MOST_CORES or rank.own_runnable >= SHELL_MOST_CORES):
        return rank
    own = {
        "own_user_cores": rank.get("own_user_cores") + rank.get("children_cores"),
        "own_queue_threads": rank.get("own_queue_threads") + rank.get("children_queue_threads"),
    }
    none = {"children_cores", "children_queue_threads"}
    kept = {name: value for name, value in rank.columns.items() if name not in none}
    return replace(rank, columns={**kept, **own} if rank.columns else {})


def _means(track: Track, since_s: float) -> dict[str, float]:
    """The mean of each column, by time; a column without a value is not there."""
    begins = (0.0, *track.times_s)[: len(track.times_s)]
    weights = [
        max(0.0, end_s - max(begin_s, since_s))
        for begin_s, end_s in zip(begins, track.times_s, strict=True)
    ]
    if not any(weights):
        weights = [end_s - begin_s for begin_s, end_s in zip(begins, track.times_s, strict=True)]
    means = {}
    for name, values in track.columns.items():
        samples = [
            (weight, value)
            for weight, value in zip(weights, values, strict=False)
            if value is not None and weight > 0
        ]
        all_s = sum(weight for weight, _ in samples)
        if all_s > 0:
            means[name] = sum(weight * value for weight, value in samples) / all_s
    return means
