"""What failures and oversubscribed cores say of settings that ask for even more."""

from __future__ import annotations

import math

import numpy as np

from tuner.search.grid import Flags, Floats, Grid, Rows
from tuner.search.launch_groups import Groups, log_times

#: The chance for a setting that asks for as many cores as one that ran short.
_SHORT = 0.9

#: How far an odd number of ranks is from an even one, besides what lies between them.
_OTHER_KIND_OCTAVES = 3.0


def ruled_out(grid: Grid, rows: Rows, groups: Groups) -> Flags:
    """Return which rows failed, or ask for too much.

    They ask for more cores than any setting may, or for no less of anything than a setting for
    which something ran out. Other failures rule out their own setting only.
    """
    most_demand = grid.space.most_demand
    most_octaves = math.inf if most_demand is None else math.log2(most_demand) + 1e-9
    rising = [knob.ordered for knob in grid.space.knobs]
    is_out = grid.demand(rows) > most_octaves
    for group in groups.values():
        if group.only_failed:
            row = grid.row(group.key)
            is_out |= (rows == row).all(1)
            if group.is_bound:
                is_out |= grid.beyond(rows, row, rising)
    return np.asarray(is_out)


def chance_of_failure(grid: Grid, rows: Rows, groups: Groups) -> Floats:
    """Return how likely each row fails: failures against successes nearby (Nadaraya-Watson).

    A row that asks for no more of anything than a setting that ran, with as many ranks, is expected
    to run as well. A program that refuses a number of ranks refuses others of a kind (it divides
    its grid): of numbers above 1 the odd ones are near each other, and far from the even ones.
    """
    failed_rows = [grid.row(g.key) for g in groups.values() if g.only_failed]
    if not failed_rows:
        return np.zeros(len(rows))
    rows_that_ran = [grid.row(g.key) for g in groups.values() if g.finished or g.projected]
    rank_counts = [
        j for j, knob in enumerate(grid.space.knobs) if knob.role == "ranks" and knob.ordered
    ]

    def nearness(row: Rows) -> Floats:
        distances = [grid.steps(j, rows, row) for j in range(len(row))]
        for j in rank_counts:
            numbers = np.array([*grid.space.knobs[j].values, 0], int)  # 0: it is left out
            is_odd = (numbers % 2 == 1) & (numbers > 1)
            kinds = is_odd[rows[:, j]].astype(int) + is_odd[row[j]]  # 2: both are odd
            distances[j] = np.where(kinds == 2, 0.0, distances[j] + _OTHER_KIND_OCTAVES * kinds)
        return np.asarray(np.exp(-np.sum(distances, axis=0) / 1.5))  # it fades over 1.5 octaves

    failures = sum((nearness(row) for row in failed_rows), np.zeros(len(rows)))
    successes = sum((nearness(row) for row in rows_that_ran), np.zeros(len(rows)))
    # 0.1 far from all
    chance = np.minimum((failures + 0.01) / (failures + successes + 0.1), 1.0)
    rising = [knob.ordered and knob.role != "ranks" for knob in grid.space.knobs]
    for row in rows_that_ran:
        chance[grid.beyond(rows, row, rising, below=True)] = 0.0
    return np.asarray(chance)


def risk(grid: Grid, rows: Rows, groups: Groups) -> Floats:
    """Return how likely each row fails only because it asks for more cores than any that ran.

    This prior is for searches in which a failure is expensive. Once a setting ran short, the limit
    lies anywhere between the settings that ran and that one, on a scale of doublings.
    """
    keys_that_ran = [g.key for g in groups.values() if g.finished or g.projected]
    short_keys = [g.key for g in groups.values() if g.only_failed and g.is_bound]
    if not keys_that_ran or not short_keys:
        return np.zeros(len(rows))
    demand = grid.demand(rows)
    most_that_ran = max(0.0, float(grid.demand(grid.rows(keys_that_ran)).max()))
    least_short = float(grid.demand(grid.rows(short_keys)).min())
    part_of_gap = (demand - most_that_ran) / max(least_short - most_that_ran, 1e-9)
    return np.where(demand > most_that_ran, np.minimum(part_of_gap, 1.0) * _SHORT, 0.0)


def overdone(grid: Grid, rows: Rows, groups: Groups, slow_log_s: float) -> Flags:
    """Return which rows ask for more than a setting that overfills the cores and is slow for it.

    They have as much or more of every count, all else equal: adding threads to a setting that is
    slow for having too many does not make it fast. This is a prior and rules nothing out.
    """
    is_overdone = np.zeros(len(rows), bool)
    rising = [knob.ordered and knob.role is not None for knob in grid.space.knobs]
    for key, log_s in log_times(groups).items():
        row = grid.row(key)
        if log_s >= slow_log_s and grid.demand(row[None])[0] > 0:
            is_overdone |= grid.beyond(rows, row, rising)
    return is_overdone
