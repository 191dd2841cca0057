"""What failures and overfull cores say of the settings beyond them."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.grid import Flags, Floats, Grid, Rows
from tuner.search.launch_groups import Groups, log_times

#: The chance that a setting fails, for each octave of cores that it asks for beyond what ran, and
#: the most that this comes to, before anything ran short.
_RISK, _RISK_MOST = 0.3, 0.5

#: The chance for what asks for more than all that ran, and no less than what ran short.
_SHORT = 0.9


def ruled_out(grid: Grid, rows: Rows, groups: Groups) -> Flags:
    """Return which rows failed, or ask for too much.

    They ask for more cores than any setting may, or for no less of anything than a setting for
    which something ran out. Other failures rule out their own setting only.
    """
    most = grid.space.most_demand
    rising = [knob.ordered for knob in grid.space.knobs]
    out = grid.demand(rows) > (math.inf if most is None else math.log2(most) + 1e-9)
    for group in groups.values():
        if group.only_failed:
            row = grid.row(group.key)
            out |= (rows == row).all(1)
            if group.is_bound:
                out |= grid.beyond(rows, row, rising)
    return np.asarray(out)


def chance_of_failure(grid: Grid, rows: Rows, groups: Groups) -> Floats:
    """Return how likely each row fails: failures against successes nearby (Nadaraya-Watson).

    A row that asks for no more of anything than a setting that ran is taken to run as well.
    """
    failed = [grid.row(g.key) for g in groups.values() if g.only_failed]
    if not failed:
        return np.zeros(len(rows))
    ran = [grid.row(g.key) for g in groups.values() if g.finished or g.projected]

    def near(row: Rows) -> Floats:
        away = sum(grid.steps(j, rows, row) for j in range(len(row)))
        return np.asarray(np.exp(-np.asarray(away) / 1.5))

    bad = sum((near(row) for row in failed), np.zeros(len(rows)))
    good = sum((near(row) for row in ran), np.zeros(len(rows)))
    chance = np.minimum((bad + 0.01) / (bad + good + 0.1), 1.0)
    rising = [knob.ordered for knob in grid.space.knobs]
    for row in ran:
        chance[grid.beyond(rows, row, rising, below=True)] = 0.0
    return np.asarray(chance)


def risk(grid: Grid, rows: Rows, groups: Groups) -> Floats:
    """Return how likely each row fails only because it asks for more cores than any that ran.

    This prior is for searches in which a failure is expensive. Once something ran out, the limit
    lies anywhere between what ran and that, on a scale of doublings.
    """
    ran = [g.key for g in groups.values() if g.finished or g.projected]
    if not ran:
        return np.zeros(len(rows))
    demand = grid.demand(rows)
    most = max(0.0, float(grid.demand(grid.rows(ran)).max()))
    short = [g.key for g in groups.values() if g.only_failed and g.is_bound]
    if not short:
        return np.clip(_RISK * (demand - most), 0, _RISK_MOST)
    least = float(grid.demand(grid.rows(short)).min())
    between = (demand - most) / max(least - most, 1e-9)
    return np.where(demand > most, np.minimum(between, 1.0) * _SHORT, 0.0)


def overdone(grid: Grid, rows: Rows, groups: Groups, slow_log_s: float) -> Flags:
    """Return which rows ask for more than a setting that overfills the cores and is slow for it.

    They have as much or more of every count, all else equal: adding threads to a setting that is
    slow for having too many does not make it fast. This is a prior and rules nothing out.
    """
    out = np.zeros(len(rows), bool)
    rising = [knob.ordered and knob.role is not None for knob in grid.space.knobs]
    for key, log_s in log_times(groups).items():
        row = grid.row(key)
        if log_s >= slow_log_s and grid.demand(row[None])[0] > 0:
            out |= grid.beyond(rows, row, rising)
    return out
