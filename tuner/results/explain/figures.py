"""Means over a launch, from what was recorded at intervals (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tuner.model import PhaseShare, Telemetry, Track

#: What a shell that waits for its program uses at the most.
SHELL_MOST_CORES = 0.05


@dataclass(frozen=True)
class RankFigures:
    """One rank: the means of its columns and its phases; what was not seen is not there."""

    rank: int
    columns: Mapping[str, float]
    phases: Mapping[str, PhaseShare]

    def get(self, name: str) -> float:
        """A column's mean; 0 where it was not seen."""
        return self.columns.get(name, 0.0)

    @property
    def own(self) -> float:
        """Cores that the rank's own process used."""
        return self.get("own_user_cores") + self.get("own_system_cores")

    @property
    def own_wanted(self) -> float:
        """Its threads that ran or waited for a CPU, on average."""
        return self.own + self.get("own_queue_threads")

    @property
    def children_wanted(self) -> float:
        """The same of its child processes."""
        return self.get("children_cores") + self.get("children_queue_threads")

    def share(self, phase: str) -> float:
        """Of its main thread's time, that in a phase."""
        return self.phases[phase].share if phase in self.phases else 0.0


@dataclass(frozen=True)
class Figures:
    """All of a launch: the host, the ranks that were seen."""

    host: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[RankFigures, ...] = ()

    def get(self, name: str) -> float:
        """A column of the host; 0 where it was not seen."""
        return self.host.get(name, 0.0)

    @property
    def inside(self) -> tuple[RankFigures, ...]:
        """The ranks that were seen from inside."""
        return tuple(rank for rank in self.ranks if rank.phases)

    def mean(self, name: str) -> float:
        """A column of the ranks, on average."""
        return mean(rank.get(name) for rank in self.ranks)

    def total(self, name: str) -> float:
        """A column of the ranks, in all."""
        return sum(rank.get(name) for rank in self.ranks)

    def phase(self, phase: str, part: str = "share") -> float:
        """What a phase took of the main threads' time, on average over the ranks."""
        return mean(
            getattr(rank.phases[phase], part) if phase in rank.phases else 0.0
            for rank in self.inside
        )

    def where(self, phase: str) -> str:
        """The line at which most of a phase's time was spent."""
        shares = [rank.phases[phase] for rank in self.inside if phase in rank.phases]
        return max(shares, key=lambda each: each.share).where if shares else ""


def mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def figures(telemetry: Telemetry, since_s: float = 0.0) -> Figures:
    """The means of a launch.

    Args:
        telemetry: What was recorded.
        since_s: When the program itself began: what was before is left out, unless
            nothing was recorded since.
    """
    host: dict[str, list[float]] = {}
    ranks: dict[int, Mapping[str, float]] = {}
    for track in telemetry.tracks:
        columns = means(track, since_s)
        if track.rank is not None:
            if columns:
                ranks[track.rank] = columns
            continue
        for name, value in columns.items():
            host.setdefault(name, []).append(value)
    phases: dict[int, dict[str, PhaseShare]] = {}
    for share in telemetry.phases:
        phases.setdefault(share.rank, {})[share.phase] = share
    return Figures(
        # Of several hosts the one that is worst off in each respect: the others wait for it.
        {name: max(values) for name, values in host.items()},
        tuple(
            _of_one(rank, ranks.get(rank, {}), phases.get(rank, {}), python=bool(phases))
            for rank in sorted({*ranks, *phases})
        ),
    )


def _of_one(
    rank: int,
    columns: Mapping[str, float],
    phases: Mapping[str, PhaseShare],
    *,
    python: bool,
) -> RankFigures:
    """One rank; where its work is done below a script of a shell, the children are the rank."""
    seen = RankFigures(rank, columns, phases)
    busy = sum(each.running + each.queued for each in phases.values())
    if python and (busy < SHELL_MOST_CORES or seen.own_wanted >= SHELL_MOST_CORES):
        return seen
    own = {
        "own_user_cores": seen.get("own_user_cores") + seen.get("children_cores"),
        "own_queue_threads": seen.get("own_queue_threads") + seen.get("children_queue_threads"),
    }
    none = {"children_cores", "children_queue_threads"}
    kept = {name: value for name, value in columns.items() if name not in none}
    return RankFigures(rank, {**kept, **own} if columns else {}, phases)


def means(track: Track, since_s: float) -> dict[str, float]:
    """The mean of each column, by time; a column without a value is not there."""
    begins = (0.0, *track.times_s)[: len(track.times_s)]
    weights = [
        max(0.0, end_s - max(begin_s, since_s))
        for begin_s, end_s in zip(begins, track.times_s, strict=True)
    ]
    if not any(weights):
        weights = [end_s - begin_s for begin_s, end_s in zip(begins, track.times_s, strict=True)]
    found = {}
    for name, values in track.columns.items():
        seen = [
            (weight, value)
            for weight, value in zip(weights, values, strict=False)
            if value is not None and weight > 0
        ]
        all_s = sum(weight for weight, _ in seen)
        if all_s > 0:
            found[name] = sum(weight * value for weight, value in seen) / all_s
    return found
