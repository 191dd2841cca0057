"""How results are put into words: shared by the command line, the exports and the dashboard.

Pure: no printing.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.model import Cap, Failed, LauncherInfo, Layout, Load

#: The names people know each launcher by.
LAUNCHER_NAMES = {
    "openmpi": "Open MPI",
    "mpich": "MPICH",
    "intelmpi": "Intel MPI",
    "srun": "srun",
    "torchrun": "torchrun",
    "none": "no launcher",
}


def one_line(text: str, most: int | None = 200) -> str:
    """Return foreign text as one line of printable letters; one longer than ``most`` is cut."""
    text = text.replace("\t", " ")
    cut = text if most is None or len(text) <= most else text[: most - 1] + "…"
    return "".join(letter if letter.isprintable() else "?" for letter in cut)


def seconds(value_s: float) -> str:
    """Write a measured time with about three digits: ``0.941 s``, ``8.31 s``, ``831 s``."""
    digits = 3 if value_s < 1 else 2 if value_s < 10 else 1 if value_s < 100 else 0
    return f"{value_s:.{digits}f} s"


def duration(value_s: float) -> str:
    """Write how long something takes or took: ``40 s``, ``3 min``, ``2 h 05 min``."""
    whole_s = max(0, round(value_s))
    if whole_s < 60:
        return f"{whole_s} s"
    minutes, rest_s = divmod(whole_s, 60)
    if minutes < 10 and rest_s:
        return f"{minutes} min {rest_s:02d} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def clock(value_s: float) -> str:
    """Write the time since the start, for the begin of a line: ``0:07``, ``12:40``, ``1:02:05``."""
    minutes, second = divmod(int(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"


def unparted(text: str) -> str:
    """Return the text with a no-break space between each number and its unit."""
    return re.sub(r"(?<=\d) (?=(%|s|min|h|pairs?|runs?)(?!\w))", "\xa0", text)


def ranks(layout: Layout) -> str:
    """Write how many ranks there are: ``8 ranks``, ``8 ranks on 2 hosts``."""
    text = count(layout.ranks, "rank")
    return text if layout.is_local else f"{text} on {count(len(layout.hosts), 'host')}"


def by_host(layout: Layout) -> str:
    """Write how many ranks each host has: ``4 on h1, 4 on h2``."""
    return ", ".join(f"{ranks} on {name}" for name, ranks in layout.slots)


def gibibytes(size_bytes: float) -> str:
    """Write a size of memory: ``23.5 GiB``."""
    return f"{size_bytes / 2**30:.3g} GiB"


def failed_command(code: int, errors: str) -> str:
    """Say why a command failed: by its exit code and the last line that it wrote to stderr."""
    *_, last = ["nothing was printed", *errors.strip().splitlines()]
    return f"exit code {code}: {one_line(last)}"


def capital(text: str) -> str:
    """Return the text as the begin of a sentence."""
    return text[:1].upper() + text[1:]


def changed(ratio: float) -> str:
    """Write the ratio of a time to another one: ``12 % longer``, ``30 % less``."""
    percent = round(100 * (ratio - 1)) if ratio > 1 else round(100 * (1 - ratio))
    return f"{percent} % {'longer' if ratio > 1 else 'less'}"


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number of things: ``1 run``, ``3 runs``; ``plural`` if it is not made with an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def launcher(info: LauncherInfo) -> str:
    """Return the name of a launcher with its version, as ``Open MPI 5.0.11``."""
    return f"{LAUNCHER_NAMES.get(info.kind, info.kind)} {info.version}".rstrip()


def failure(failed: Failed | None) -> str:
    """Return a line that says why a launch has no figure."""
    if failed is None:
        return "failed"
    first = failed.reason.strip().splitlines()[0] if failed.reason.strip() else ""
    if first.startswith(failed.kind):  # `out of memory: MemoryError` needs no second heading
        return first
    return f"{failed.kind}: {first}" if first else str(failed.kind)


def times(ratio: float | None) -> str:
    """Write a speed-up for a table: ``2.31x``; empty if there is none."""
    return "" if ratio is None else f"{ratio:.2f}x"


def cores(used: float, of: int) -> str:
    """Write how much CPU was used, on average: ``0.8 of 2 cores``."""
    return f"{used:.2g} of {count(of, 'core')}"


def most_of_it(load: Load) -> str:
    """Say which process used the most, behind how much was used: ``, above all pid 6263``."""
    return f", above all {load.busiest}" if load.busiest else ""


def capped(cap: Cap) -> str:
    """Return the sentence on a knob that all launches show to be capped."""
    why = f": {cap.reason}" if cap.reason else ""
    return f"{cap.knob}: {cap.value + 1} and more come to {cap.value} here (capped{why})"


def not_tuned(name: str, reason: str) -> str:
    """Return the sentence on a knob that the program overrides."""
    return f"{name} is not tuned: {reason}"


# --- and back: times and shares as a user writes them -------------------------------------

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_TIME = re.compile(_NUMBER + r"\s*(s|m|min|h|)", re.ASCII)
_SHARE = re.compile(_NUMBER + r"\s*%", re.ASCII)


def parse_time_s(text: str) -> float:
    """Read ``90``, ``90s``, ``2m`` (or ``2min``), ``1.5h``, ``.5s``; else it is a `ValueError`."""
    match = _TIME.fullmatch(text.strip())
    time_s = float(match[1]) * _UNITS_S[match[2]] if match else math.nan
    if not (time_s > 0 and math.isfinite(time_s)):
        raise ValueError("must be a time above 0, such as 90, 90s, 1.5m or 2h")
    return time_s


def parse_share(text: str) -> float:
    """Read a percentage as a share of 1: ``2%``, ``0.5 %``; a `ValueError` without the sign."""
    match = _SHARE.fullmatch(text.strip())
    share = float(match[1]) / 100 if match else math.nan
    if not 0 < share < 1:
        raise ValueError(text)
    return share
