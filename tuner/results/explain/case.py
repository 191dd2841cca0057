"""All that the rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tuner.model import Load, RankView
from tuner.results.explain.figures import Figures


@dataclass(frozen=True)
class Case:
    """A launch, as the rules see it.

    ``cores`` are the CPUs that may be used; ``views`` what was seen of the ranks besides.
    """

    figures: Figures
    cores: int
    load: Load | None = None
    views: tuple[RankView, ...] = ()

    @cached_property
    def own_wanted(self) -> float:
        """Threads of the ranks themselves that ran or waited for a CPU, on average."""
        return sum(rank.own_wanted for rank in self.figures.ranks)

    @cached_property
    def children_wanted(self) -> float:
        """The same of their child processes."""
        return sum(rank.children_wanted for rank in self.figures.ranks)

    @property
    def wanted(self) -> float:
        """Both."""
        return self.own_wanted + self.children_wanted

    @cached_property
    def queue_share(self) -> float:
        """Of the time in which threads of the trial could have run, that without a CPU."""
        waited = self.figures.total("own_queue_threads") + self.children_waited
        return min(1.0, waited / self.wanted) if self.wanted > 0 else 0.0

    @property
    def children_waited(self) -> float:
        """Threads of the child processes that waited for a CPU."""
        return self.figures.total("children_queue_threads")

    @property
    def worker_queue_share(self) -> float:
        """Of a child process's time, that waiting for a CPU, on average."""
        processes = max(self.workers, self.children_wanted)
        return min(1.0, self.children_waited / processes) if processes > 0 else 0.0

    @property
    def rank_queue_share(self) -> float:
        """Of a rank's time, that in which threads of its own waited for a CPU, on average.

        Of several threads at once, the part of them that waited.
        """
        ranks = self.figures.ranks
        shares = [rank.get("own_queue_threads") / max(1.0, rank.own_wanted) for rank in ranks]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def busy_cores(self) -> float:
        """CPUs of the host that were busy, whoever used them."""
        return self.figures.get("user_cores") + self.figures.get("system_cores")

    @property
    def unassigned_cores(self) -> float:
        """CPUs of the host that were busy, but neither by ranks that were seen nor by others.

        Host and ranks do not add up then: the job has processes that were not seen as a rank's.
        """
        if not {"others_cores", "user_cores"} <= self.figures.host.keys():
            return 0.0
        ranks = sum(rank.own + rank.get("children_cores") for rank in self.figures.ranks)
        return max(0.0, self.busy_cores - self.others_cores - ranks)

    @property
    def others_cores(self) -> float:
        """CPUs that other processes used.

        A process of the launch that is found late counts as another's until then, but not in
        the accounts of the whole launch, which come from what ``tune`` has waited for.
        """
        told = [self.figures.host.get("others_cores")]
        told += [self.load.others_cores] if self.load else []
        return min((each for each in told if each is not None), default=0.0)

    @property
    def idle_cores(self) -> float:
        """CPUs that nobody used; 0 where that was not seen."""
        if "user_cores" not in self.figures.host:
            return 0.0
        return max(0.0, self.cores - self.busy_cores)

    @property
    def others_wanted(self) -> float:
        """Threads of other processes that ran or waited for a CPU, on average.

        Who waits in the same queues gets the same part of what it wants: so many more than ran
        wanted to as with the trial's own (low priority then counts as little). Where groups of
        processes share the CPUs, not threads, that is too much: there are no more than run.
        """
        used = self.others_cores
        wanted = used / max(1e-3, 1 - self.queue_share)
        runnable = self.figures.host.get("runnable_threads")
        if runnable is not None:
            wanted = min(wanted, runnable - self.wanted)
        return max(used, wanted)

    @property
    def forked(self) -> bool:
        """Whether the ranks' work is done by several processes with one thread each."""
        return any(view.children > 1 for view in self.views) and all(
            view.threads <= 1 for view in self.views
        )

    @property
    def workers(self) -> int:
        """Child processes of all ranks, as many as were seen at once."""
        return sum(view.children for view in self.views)

    @property
    def shortage(self) -> float:
        """Of a rank's time, what went by because threads waited for a CPU, on average.

        A main thread's own waiting was measured from inside. Where it waits for others (its
        workers, the other ranks, threads of a parallel loop), these waited for a CPU in turn
        for as large a part of their time.
        """
        seen = self.figures
        queued = sum(seen.phase(phase, "queued") for phase in ("loader", "exchange", "compute"))
        exchange = seen.phase("exchange", "running") + seen.phase("exchange", "blocked")
        waits = (
            seen.phase("loader", "blocked") * self.worker_queue_share
            + (exchange + seen.phase("compute", "blocked")) * self.rank_queue_share
        )
        return min(1.0, max(self.rank_queue_share, queued + waits))
