"""The fewest changes: of settings that are equal, the one that leaves most knobs as they are.

What the search found names a value of every knob. Once it has ended, knobs that are likely not to
matter are left out of that: in one or two launches, raced as any other. Pure.
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
from tuner.search.history import Group
from tuner.search.left_out import LeftOutModel
from tuner.search.space import LEFT_OUT, Key
from tuner.stats import estimates
from tuner.study.history import History
from tuner.study.observations import observations, search_space

#: How many launches it may take.
MOST_LAUNCHES = 2

#: How likely a setting must be equal to the best, so that it is launched; so that it is called best
#: then; and so that one is that was launched anyway. For a knob that the model holds to have no
#: effect less will do: few launches cannot show more beside the noise.
LEAST_CHANCE, EQUAL_CHANCE, EVEN_CHANCE = 0.2, 0.3, 0.5

#: A setting whose runs took this many times those of the best is not equal.
_FAR = 1.3


@dataclass(frozen=True)
class Contribution:
    """What one knob alone contributes: how many times faster the best setting is with it.

    Attributes:
        knob: Its name.
        value: In the best setting; ``None``: that leaves the knob as it is. Then the ratio says how
            many times faster all such knobs would make it together.
        ratio: The estimate.
        low: Of its 95 % interval.
        high: The same; ``None``: only the lower end is known.
        was_launched: A launch that leaves out this knob alone came to its end; else the interval
            is what the model makes of the other launches.
    """

    knob: str
    value: Value | None
    ratio: float
    low: float
    high: float | None
    was_launched: bool


@dataclass(frozen=True)
class FewestChanges:
    """What the launches say of leaving knobs out.

    Attributes:
        history: The study.
        found: The setting that the search calls best.
        records: The launches to go by.
    """

    history: History
    found: Setting
    records: Sequence[LaunchRecord]

    def is_same(self, other: FewestChanges) -> bool:
        """True if the other says the same."""
        known, told = (
            (each.found, each.records, each.history.spec, each.history.pooling)
            for each in (self, other)
        )
        return known == told

    @cached_property
    def model(self) -> LeftOutModel:
        """The model of these launches."""
        searched, pooling = search_space(self.history), self.history.pooling
        filled = pooling.unchanged.keys() - pooling.fixed  # the baseline leaves out the others
        knobs = tuple(
            replace(axis, when=(), optional=bool(axis.when) or axis.name not in filled)
            for axis in searched.knobs
        )
        seen = observations(self.history, self.records)
        keyed = [
            replace(each, setting=self._key(record.setting))
            for each, record in zip(seen, self.records, strict=True)
        ]
        wide = replace(searched, knobs=knobs, baseline=None, guesses=(), requirements=NONE)
        return LeftOutModel(wide, keyed, self.history.spec.seed)

    @cached_property
    def _times_s(self) -> dict[Setting, float | None]:
        """The time of each (canonical) setting; ``None`` if it never ran to its end."""
        found = estimates.measurements(self.records, self.history.pooling.canonical)
        return {each.setting: each.elapsed_s for each in found}

    @cached_property
    def best(self) -> Setting:
        """Of the settings that are equal to what was found, the one with the fewest changes.

        It has one: what changes nothing is the baseline's part.
        """
        canonical, most = self.history.pooling.canonical, len(self.changes(self.found))
        rivals = [
            each
            for each in self._times_s
            if self._is_near(each)
            and 0 < len(self.changes(each)) < most
            and self._required <= set(each.items)
            and self._key(each) is not None
        ]
        left_out = {canonical(r.setting) for r in self.records if r.purpose is Purpose.SIMPLIFY}
        equal = [
            (len(self.changes(setting)), -chance, setting)
            for setting, chance in zip(rivals, self._chances(rivals), strict=True)
            if chance >= (EQUAL_CHANCE if setting in left_out else EVEN_CHANCE)
        ]
        return min(equal, key=lambda each: each[:2])[-1] if equal else self.found

    def next(self) -> Setting | None:
        """What to launch to simplify the best; ``None``: nothing more is likely to be left out."""
        if len(self.history.simplifying) >= MOST_LAUNCHES or self._baseline_is_equal():
            return None
        best = self.best
        names = [name for name in self.changes(best) if can_leave_out(self.history, name)]
        alone = dict(
            zip(names, self._chances([self.without(best, {n}) for n in names]), strict=True)
        )
        order = sorted(names, key=lambda name: -alone[name])
        worth: dict[Setting, float] = {}
        for number, name in enumerate(order, start=1):
            part = self.without(best, order[:number])
            # Most knobs do nothing, so a part is as likely as the least likely of what is left out.
            if alone[name] >= LEAST_CHANCE and self.changes(part) and self._group(part) is None:
                worth[part] = number * alone[name]
        return max(worth, key=lambda part: worth[part], default=None)

    def contributions(self, best: Setting, finding: Finding | None) -> list[Contribution]:
        """What each knob alone contributes to the best setting, in the order of the knobs.

        Args:
            best: The (canonical) setting that is called best.
            finding: What launches in turn with the baseline prove of it.
        """
        chosen, changes = best.as_dict(), self.changes(best)
        out = {n: self.found.as_dict()[n] for n in self.changes(self.found) if n not in changes}
        with_all = self.history.pooling.canonical(Setting.of(chosen | out))
        made = list[Contribution]()
        tuned = {knob.name for knob in self.history.spec.knobs if not _has_one_value(knob)}
        for name in (knob.name for knob in self.history.knobs if knob.name in tuned):
            if changes == [name] and finding is not None:
                told = finding.ratio, finding.low, finding.high
                made.append(Contribution(name, chosen[name], *told, was_launched=True))
            elif name in changes:
                without = self.without(best, {name})
                group = self._group(without)
                known = group is not None and bool(group.finished)
                ratio = self._ratio(without, best)
                made.append(Contribution(name, chosen[name], *ratio, was_launched=known))
            elif name in out:
                ratio = self._ratio(best, with_all)
                made.append(Contribution(name, None, *ratio, was_launched=True))
        return made

    def _ratio(self, setting: Setting, over: Setting) -> tuple[float, float, float]:
        keys = self._key(setting), self._key(over)
        assert keys[0] is not None and keys[1] is not None
        return self.model.ratio(keys[0], keys[1])

    def changes(self, setting: Setting) -> list[str]:
        """The knobs that a (canonical) setting does not leave as they are, the fixed ones aside."""
        pooling = self.history.pooling
        return [name for name, _ in pooling.changed(setting).items if name not in pooling.fixed]

    def without(self, setting: Setting, names: Collection[str]) -> Setting:
        """The (canonical) setting with these knobs as they are."""
        kept = {name: value for name, value in setting.items if name not in names}
        return self.history.pooling.canonical(space.there(self.history.knobs, kept))

    def _key(self, setting: Setting) -> Key | None:
        """The setting's levels in the model; ``None`` outside of the present space."""
        filled = self.history.pooling.filled(setting)
        if not space.contains_part(
            self.history.knobs, Setting(), filled, self.history.requirements
        ):
            return None
        chosen = filled.as_dict()
        return tuple(chosen.get(name, LEFT_OUT) for name, _ in self.history.distinct)

    def _group(self, setting: Setting) -> Group | None:
        """What is known of a setting; ``None`` if it was not launched."""
        key = self._key(setting)
        return None if key is None else self.model.groups.get(key)

    def _chances(self, settings: Sequence[Setting]) -> list[float]:
        """How likely each is equal to what was found, within the precision."""
        keys = [key for each in settings if (key := self._key(each)) is not None]
        than = self._key(self.found)
        assert than is not None and len(keys) == len(settings)
        return self.model.chances(keys, than, math.log1p(self.history.spec.precision))

    def _is_near(self, setting: Setting) -> bool:
        """True if it ran to its end, neither slower than the baseline nor far from the best."""
        own, best, baseline = (
            self._times_s.get(each) for each in (setting, self.found, self.history.default)
        )
        if own is None or best is None or (baseline is not None and own > baseline):
            return False
        return own <= best * _FAR

    @cached_property
    def _required(self) -> set[tuple[str, Value]]:
        """What the user fixed, a knob with a single value among them: that is never left out."""
        single = (each for each in self.history.spec.knobs if _has_one_value(each))
        chosen = self.found.as_dict()
        asked = {each.name: chosen[each.name] for each in single if each.name in chosen}
        return set((self.history.spec.fixed.as_dict() | asked).items())

    def _baseline_is_equal(self) -> bool:
        """True if there is nothing to be had: the baseline is kept."""
        known = self._group(self.history.default)
        if known is None or not known.finished or self.history.spec.fixed.items:
            return False
        return self._chances([self.history.default])[0] >= EVEN_CHANCE


def can_leave_out(history: History, name: str) -> bool:
    """Whether a knob may be left to the program: the command and the job can do without it.

    What is required of a knob cannot be told of the program's own value.
    """
    spec = history.spec
    if name in history.requirements.names:
        return False
    knob = next(each for each in spec.knobs if each.name == name)
    if _has_one_value(knob):  # the user wants it
        return False
    return knob.default is not None or all(
        command.can_leave_out(template, name) for template in (spec.command, spec.job)
    )


def _has_one_value(knob: Knob) -> bool:
    return len(space.values(knob.domain)) == 1
