"""Traffic at a millisecond: short windows of many reads, since a mean hides bursts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

#: A window is so long, and is read so often, s.
WINDOW_S = 0.05
STEP_S = 0.001

#: A reading that took longer is of no certain moment, s: the thread had lost its CPU meanwhile.
MOST_READ_S = STEP_S / 10


@dataclass(frozen=True)
class Burst:
    """What was seen of an interface in one window or more."""

    most_bytes_per_s: float  # in one step
    busy_s: float  # in steps with traffic
    looked_s: float

    def joined(self, other: Burst | None) -> Burst:
        """Both together."""
        if other is None:
            return self
        return Burst(
            max(self.most_bytes_per_s, other.most_bytes_per_s),
            self.busy_s + other.busy_s,
            self.looked_s + other.looked_s,
        )

    def columns(self) -> dict[str, float | None]:
        """As columns of `HOST_COLUMNS`."""
        return {
            "network_burst_bytes_per_s": self.most_bytes_per_s,
            "network_busy_share": self.busy_s / self.looked_s,
        }


def of_steps(readings: Iterable[tuple[float, int]]) -> Burst | None:
    """The burst in readings of (moment in s, bytes so far); ``None`` of fewer than two.

    A step that came late counts with its real length: its rate is a mean, never too high.
    """
    most, busy_s, looked_s = 0.0, 0.0, 0.0
    before: tuple[float, int] | None = None
    for at_s, count in readings:
        if before is not None and at_s <= before[0]:
            continue
        if before is not None:
            step_s, moved = at_s - before[0], max(0, count - before[1])
            most = max(most, moved / step_s)
            busy_s += step_s if moved else 0.0
            looked_s += step_s
        before = (at_s, count)
    return Burst(most, busy_s, looked_s) if looked_s else None


class Meter:
    """Reads the counters of one interface, over and over."""

    def __init__(self, interface: str, root: Path = Path("/")) -> None:
        """Open them.

        Raises:
            OSError: There are none, or they may not be read.
        """
        folder = root / "sys/class/net" / interface / "statistics"
        # What goes over lo comes in as well: it is counted once.
        names = ("rx_bytes",) if interface == "lo" else ("rx_bytes", "tx_bytes")
        self.interface = interface
        self._files: list[int] = []
        try:
            for name in names:
                self._files.append(os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def window(self, ended: Callable[[], bool]) -> Burst | None:
        """Look for `WINDOW_S`, or until it is ended.

        Raises:
            OSError, ValueError: The interface is gone.
        """
        readings: list[tuple[float, int]] = []
        end_s = time.monotonic() + WINDOW_S
        at_s = 0.0
        while not at_s or (at_s < end_s and not ended()):
            if at_s:
                time.sleep(STEP_S)
            begun_s = time.monotonic()
            count = sum(int(os.pread(file, 32, 0)) for file in self._files)
            at_s = time.monotonic()
            if at_s - begun_s <= MOST_READ_S:
                readings.append((at_s, count))
        return of_steps(readings)

    def close(self) -> None:
        """Close them; harmless twice."""
        while self._files:
            os.close(self._files.pop())
