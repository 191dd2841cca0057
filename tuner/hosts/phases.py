"""Reads what the probe inside Python ranks saw their main threads do."""

from __future__ import annotations

import math
import re
from pathlib import Path

from tuner.hosts.probe import probe_folder
from tuner.hosts.untrusted_files import read_untrusted
from tuner.model import PHASES, PhaseShare
from tuner.model.wording import one_line

#: The probe's files: the rank, and the process that wrote it.
_FILE = re.compile(r"rank-(\d{1,9})\.\d{1,9}\.phases")

#: A longer file is none of the probe's, bytes.
_MOST_BYTES = 1 << 16


def read_phases(folder: Path) -> tuple[PhaseShare, ...]:
    """How the main threads of the trial in `folder` spent their time, by rank and phase.

    Of several Pythons in a rank (a launcher around the trainer) the one that kept a CPU busy the
    longest counts. What is missing or is no such file is passed over; phases without time too.
    """
    shares_by_rank: dict[int, list[PhaseShare]] = {}
    work_s: dict[int, float] = {}
    for path in sorted(probe_folder(folder).glob("rank-*.phases")):
        name = _FILE.fullmatch(path.name)
        if name is None:
            continue
        rank = int(name[1])
        try:
            shares, busy_s = parse_phases(read_untrusted(path, _MOST_BYTES), rank)
        except OSError:
            continue
        if shares and busy_s >= work_s.get(rank, 0.0):
            shares_by_rank[rank], work_s[rank] = shares, busy_s
    return tuple(share for rank in sorted(shares_by_rank) for share in shares_by_rank[rank])


def parse_phases(data: bytes, rank: int) -> tuple[list[PhaseShare], float]:
    """The phases of one file, and the seconds on a CPU or waiting for one; nothing of another."""
    rows: dict[str, tuple[list[float], str]] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        phase, *rest = line.split("\t")
        try:
            numbers = [float(text) for text in rest[:3]]
        except ValueError:
            return [], 0.0
        sound = len(rest) == 4 and all(0 <= number < math.inf for number in numbers)
        if phase not in PHASES or not sound:
            return [], 0.0
        rows[phase] = numbers, one_line(rest[3])
    all_s = sum(sum(numbers) for numbers, _ in rows.values())
    if not 0 < all_s < math.inf:
        return [], 0.0
    shares = []
    for phase in PHASES:
        numbers, where = rows.get(phase, ([0.0] * 3, ""))
        running, queued, blocked = (number / all_s for number in numbers)
        share = running + queued + blocked
        if share > 0:
            shares.append(PhaseShare(rank, phase, share, running, queued, blocked, where))
    return shares, sum(numbers[0] + numbers[1] for numbers, _ in rows.values())
