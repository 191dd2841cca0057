"""The fewest changes: of settings that are equal, the one that leaves most knobs as they are.

The setting that the search calls best names a value of every knob. Once the search has nothing
more to choose, one or two launches leave out knobs that are likely not to matter. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tuner.knobs import space
from tuner.knobs.requirements import NONE
from tuner.launch import command
from tuner.model import Finding, Knob, LaunchRecord, Purpose, Setting, Value
from tuner.search.gaussian import CEILING, Gaussian, fit
from tuner.search.grid import LEFT_OUT, Grid, Key, Rows
from tuner.search.kernel import PRIOR, WINDOW_PRIOR, Kernel
from tuner.search.launch_groups import Group, Groups, grouped
from tuner.stats import evidence
from tuner.study.history import History
from tuner.study.observations import observations, search_space

#: At most this many launches are spent on leaving knobs out.
MOST_LAUNCHES = 2

#: A simpler setting is preferred if the model expects it to be slower by at most this share of
#: ``--precision``. One that was launched to leave knobs out may be slower by twice as much: most
#: knobs do nothing, which the model does not know. The true cost is then below half the precision.
TRIED_SHARE, LEFT_OUT_SHARE = 0.5, 1.0

#: A simpler setting is launched if it is as fast as the best, within ``--precision``, with at least
#: this probability.
LEAST_CHANCE = 0.2

#: A setting whose runs took this many times those of the best is not equal.
_FAR = 1.3


@dataclass(frozen=True)
class Contribution:
    """What one knob alone contributes: how many times faster the best setting is with it.

    A knob without a value is left as it is by the best setting: then the ratio says how many times
    faster all such knobs would make it together.
    """

    knob: str
    value: Value | None
    ratio: float
    low: float  # of the 95 % interval
    high: float | None  # None: only the lower end is known
    was_launched: bool  # without this knob alone; if not, the interval is the model's guess


@dataclass(frozen=True)
class FewestChanges:
    """What the launches say of leaving knobs out of the setting that the search calls best.

    The model of the search judges that: to be left out is one more level of each knob.
    """

    history: History
    fastest: Setting
    records: Sequence[LaunchRecord]  # those that are evidence

    @cached_property
    def best(self) -> Setting:
        """The setting with the fewest changes among those that are equal to the fastest.

        At least one change remains: a setting without any is the baseline.
        """
        history = self.history
        fixed = {knob.name for knob in history.knobs if _has_one_value(knob)}
        required = {item for item in self.fastest.items if item[0] in fixed}
        most_changes = len(self.changes(self.fastest))
        measured = evidence.measurements(self.records)
        times_s = {m.setting: m.elapsed_s for m in measured if m.elapsed_s is not None}
        # No slower than the baseline, and near the fastest.
        most_s = min(times_s.get(self.fastest, 0.0) * _FAR, times_s.get(history.default, math.inf))
        simpler = [
            setting
            for setting, time_s in times_s.items()
            if time_s <= most_s
            and self._key(setting) is not None
            and 0 < len(self.changes(setting)) < most_changes
            and required <= set(setting.items)
        ]
        left_out = {r.canonical for r in self.records if r.purpose is Purpose.SIMPLIFY}
        equal: dict[Setting, float] = {}
        for setting, loss in self._losses(simpler).items():
            if loss <= self._most_loss(LEFT_OUT_SHARE if setting in left_out else TRIED_SHARE):
                equal[setting] = loss
        return min(equal, key=lambda s: (len(self.changes(s)), equal[s]), default=self.fastest)

    def next(self) -> Setting | None:
        """Return what to launch with fewer changes; ``None``: no other knob is likely to go."""
        history, default = self.history, self.history.default
        group = None if history.spec.fixed.items else self._group(default)
        # A baseline that is as fast is kept: nothing is simpler.
        is_kept = group is not None and bool(group.finished)
        is_kept = is_kept and self._losses([default])[default] <= self._most_loss(TRIED_SHARE)
        if is_kept or len(history.simplifying) >= MOST_LAUNCHES:
            return None
        best = self.best
        names = [name for name in self.changes(best) if self._can_leave_out(name)]
        if not names:
            return None
        rows = self._rows([self.fastest, *(self.without(best, {name}) for name in names)])
        as_fast = self._bounded.chances(rows, self._most_loss(share=1.0), history.spec.seed)
        chances = dict(zip(names, as_fast, strict=True))
        likeliest_first = sorted(names, key=lambda name: -chances[name])
        worth: dict[Setting, float] = {}  # how many knobs the launch is expected to leave out
        for count, name in enumerate(likeliest_first, start=1):
            part = self.without(best, likeliest_first[:count])
            # Most knobs do nothing: the part is as likely fast as without its last knob alone.
            if chances[name] >= LEAST_CHANCE and self.changes(part) and self._group(part) is None:
                worth[part] = count * chances[name]
        return max(worth, key=lambda part: worth[part], default=None)

    def contributions(self, best: Setting, finding: Finding | None) -> list[Contribution]:
        """Return what each knob alone contributes to the (canonical) best setting.

        The finding of the comparison with the baseline is that of a knob which is the only change.
        """
        chosen, changes = best.as_dict(), self.changes(best)
        full = self.fastest.as_dict()
        left_out = {name: full[name] for name in self.changes(self.fastest) if name not in changes}
        with_all = self.history.pooling.canonical(Setting.of(chosen | left_out))
        contributions = list[Contribution]()
        for name in (knob.name for knob in self.history.knobs if not _has_one_value(knob)):
            if changes == [name] and finding is not None:
                ratio = finding.ratio, finding.low, finding.high
                contributions.append(Contribution(name, chosen[name], *ratio, was_launched=True))
            elif name in changes:
                without = self.without(best, {name})
                group = self._group(without)
                has_run = group is not None and bool(group.finished)
                gain = self._ratio(without, best)
                contributions.append(Contribution(name, chosen[name], *gain, was_launched=has_run))
            elif name in left_out:
                gain = self._ratio(best, with_all)
                contributions.append(Contribution(name, None, *gain, was_launched=True))
        return contributions

    def changes(self, setting: Setting) -> list[str]:
        """Return the knobs that a (canonical) setting changes, the fixed ones aside."""
        pooling = self.history.pooling
        return [name for name, _ in pooling.changed(setting).items if name not in pooling.fixed]

    def without(self, setting: Setting, names: Collection[str]) -> Setting:
        """Return the (canonical) setting in which these knobs are left to the program."""
        values = {name: value for name, value in setting.items if name not in names}
        return self.history.pooling.canonical(space.setting_of(self.history.knobs, values))

    def _can_leave_out(self, name: str) -> bool:
        """Return whether a knob may be left to the program: command and job do without it.

        A knob that a requirement names stays: nobody knows if the program's own value meets it.
        """
        spec = self.history.spec
        knob = next(knob for knob in self.history.knobs if knob.name == name)
        if name in self.history.requirements.names or _has_one_value(knob):
            return False
        return knob.default is not None or all(
            command.can_leave_out(template, name) for template in (spec.command, spec.job)
        )

    # --- the model -------------------------------------------------------------------

    @cached_property
    def _kernel(self) -> Kernel:
        """The kernel over the space in which knobs may be left out; none depends on another."""
        searched, pooling = search_space(self.history), self.history.pooling
        filled = pooling.unchanged.keys() - pooling.fixed  # the baseline leaves out the others
        knobs = tuple(
            replace(axis, when=(), optional=bool(axis.when) or axis.name not in filled)
            for axis in searched.knobs
        )
        wide = replace(searched, knobs=knobs, baseline=None, guesses=(), requirements=NONE)
        in_jobs = any(record.job is not None for record in self.records)
        return Kernel(Grid(wide), WINDOW_PRIOR if in_jobs else PRIOR)

    @cached_property
    def _groups(self) -> Groups:
        observed = zip(observations(self.history, self.records), self.records, strict=True)
        return grouped([replace(x, setting=self._key(record.setting)) for x, record in observed])

    @cached_property
    def _bounded(self) -> Gaussian:
        """The model as the search uses it: a much slower setting counts as one at the ceiling."""
        return self._fit(CEILING)

    @cached_property
    def _unbounded(self) -> Gaussian:
        """The model in which a setting may be slower than the best by any factor."""
        return self._fit(ceiling=1000.0)

    def _fit(self, ceiling: float) -> Gaussian:
        model = fit(self._kernel, self._groups, self.history.spec.seed, ceiling)
        assert model is not None  # the fastest setting has a time
        return model

    def _ratio(self, setting: Setting, over: Setting) -> tuple[float, float, float]:
        """Return the time of a setting over that of another: the median and a 95 % interval."""
        return self._unbounded.ratio(self._rows([setting, over]), self.history.spec.seed)

    def _losses(self, settings: Sequence[Setting]) -> dict[Setting, float]:
        """Return the logarithm of how many times slower than the fastest each is expected to be."""
        if not settings:
            return {}
        mean, _ = self._bounded.predict(self._rows([self.fastest, *settings]))
        return {s: float(loss) for s, loss in zip(settings, mean[1:] - mean[0], strict=True)}

    def _most_loss(self, share: float) -> float:
        """Return this share of the precision as a logarithm."""
        return math.log1p(share * self.history.spec.precision)

    def _key(self, setting: Setting) -> Key | None:
        """Return the setting's levels in the model, ``None`` outside of the present space."""
        history, filled = self.history, self.history.pooling.filled(setting)
        if not space.contains_part(history.knobs, Setting(), filled, history.requirements):
            return None
        chosen = filled.as_dict()
        return tuple(chosen.get(name, LEFT_OUT) for name, _ in history.distinct)

    def _rows(self, settings: Sequence[Setting]) -> Rows:
        keys = [key for setting in settings if (key := self._key(setting)) is not None]
        assert len(keys) == len(settings), "all are in the present space"
        return self._kernel.grid.rows(keys)

    def _group(self, setting: Setting) -> Group | None:
        """Return the launches of a setting, ``None`` if there were none."""
        return self._groups.get(self._key(setting) or ())


def _has_one_value(knob: Knob) -> bool:
    """Return whether the user wants this value: it is fixed, or the only one."""
    return len(space.values(knob.domain)) == 1
