"""Which timelines there are, a row each, and the launches that they are of."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import LaunchRecord, Track
from tuner.results.report.plots import style
from tuner.results.report.plots.runs import Side


@dataclass(frozen=True)
class Line:
    """A column of a host's track as a line."""

    column: str
    name: str
    colour: str
    factor: float = 1.0


@dataclass(frozen=True)
class Timeline:
    """One figure: its lines, on top of each other where they are parts of a whole."""

    key: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    stacked: bool = False
    of_cores: bool = False  # how many cores there are is drawn across
    tick_format: str = ""


#: One row a figure; columns are those of :data:`tuner.model.HOST_COLUMNS`.
TIMELINES = (
    Timeline(
        "cpu",
        "CPU over time",
        "cores",
        (
            Line("user_cores", "user", style.BEST),
            Line("system_cores", "system", style.BASELINE),
            Line("steal_cores", "stolen by the hypervisor", style.FAILED),
        ),
        stacked=True,
        of_cores=True,
    ),
    Timeline(
        "queue",
        "Threads that run or wait for a CPU",
        "threads",
        (Line("runnable_threads", "runnable threads", style.BEST),),
        of_cores=True,
    ),
    Timeline(
        "gpu",
        "GPU utilisation over time",
        "per cent",
        (Line("gpu_share", "utilisation", style.GREEN, 100.0),),
    ),
    Timeline(
        "gpu-power",
        "GPU power over time",
        "watts",
        (Line("gpu_power_w", "power, all GPUs", style.BASELINE),),
    ),
    Timeline(
        "network",
        "Network over time",
        "bytes a second",
        (
            Line("network_burst_bytes_per_s", "greatest millisecond", style.OTHER),
            Line("network_bytes_per_s", "average", style.BEST),
        ),
        tick_format="~s",
    ),
)


@dataclass(frozen=True)
class Watched:
    """The launch that stands for a side, and the host of it that is drawn."""

    side: Side
    record: LaunchRecord
    track: Track
    hosts: int


def values(watched: Watched, line: Line) -> list[float]:
    """What was seen of a column, without its holes; empty where nothing was."""
    seen = watched.track.columns.get(line.column, ())
    return [value * line.factor for value in seen if value is not None]
