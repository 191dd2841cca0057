"""The fewest changes: of settings that are equal, the one that leaves most knobs as they are.

What the search found names a value of every knob. Once it has ended, knobs are left out of that which
are likely not to matter: in one or two launches, raced as any other. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tuner.knobs import space
from tuner.launch import command
from tuner.model import Knob, LaunchRecord, Setting
from tuner.search.history import Group
from tuner.search.left_out import LeftOutModel
from tuner.search.space import LEFT_OUT, Key
from tuner.study.history import History
from tuner.study.observations import observations, search_space

#: How many launches it may take.
MOST_LAUNCHES = 2

#: A setting is launched, and is taken for equal to the best, if it is so with at least this chance:
#: most knobs have no effect at all, and few launches cannot show more beside the noise.
LEAST_CHANCE = 0.2
EQUAL_CHANCE = 0.3

#: A setting whose runs took this many times those of the best is not equal.
_FAR = 1.3


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
        return (self.found, self.records, self.history.spec, self.history.pooling) == (
            other.found,
            other.records,
            other.history.spec,
            other.history.pooling,
        )

    @cached_property
    def model(self) -> LeftOutModel:
        """The model of these launches."""
        wide = search_space(self.history)
        same = self.history.pooling.unchanged
        knobs = tuple(
            replace(axis, when=(), optional=bool(axis.when) or axis.name not in same)
            for axis in wide.knobs
        )
        seen = observations(self.history, self.records)
        keyed = [
            replace(each, setting=self.key(record.setting))
            for each, record in zip(seen, self.records, strict=True)
        ]
        return LeftOutModel(
            replace(wide, knobs=knobs, baseline=None, guesses=()), keyed, self.history.spec.seed
        )

    def key(self, setting: Setting) -> Key | None:
        """The setting's levels in the model; ``None`` outside of the present space."""
        filled = self.history.pooling.filled(setting)
        if not space.contains_part(self.history.knobs, Setting(), filled):
            return None
        chosen = filled.as_dict()
        return tuple(chosen.get(name, LEFT_OUT) for name, _ in self.history.distinct)

    def changes(self, setting: Setting) -> list[str]:
        """The knobs that a (canonical) setting does not leave as they are, the fixed ones aside."""
        fixed = self.history.pooling.fixed
        return [n for n, _ in self.history.pooling.changed(setting).items if n not in fixed]

    def group(self, setting: Setting) -> Group | None:
        """What is known of a setting; ``None`` if it was not launched."""
        key = self.key(setting)
        return None if key is None else self.model.groups.get(key)

    def slower(self, settings: Sequence[Setting]) -> list[list[float]]:
        """By how much each is slower than what was found, as logarithms: draws of each."""
        keys = [key for each in settings if (key := self.key(each)) is not None]
        than = self.key(self.found)
        assert than is not None and len(keys) == len(settings)
        drawn: list[list[float]] = self.model.slower(keys, than).T.tolist()
        return drawn

    def best(self) -> Setting:
        """Of the settings that are equal to what was found within the precision the simplest one.

        It changes something: what changes nothing is the baseline's part.
        """
        most, rivals = len(self.changes(self.found)), list[Setting]()
        own = self.group(self.found)
        for setting in dict.fromkeys(self.history.pooling.canonical(r.setting) for r in self.records):
            known = self.group(setting) if 0 < len(self.changes(setting)) < most else None
            if known is not None and own is not None and _is_near(known, own):
                rivals.append(setting)
        equal = [
            (len(self.changes(setting)), -chance, setting)
            for setting, chance in zip(rivals, self._chances(rivals), strict=True)
            if chance >= EQUAL_CHANCE
        ]
        return min(equal, key=lambda each: each[:2])[-1] if equal else self.found

    def next(self) -> Setting | None:
        """What to launch to simplify the best; ``None``: nothing more is likely to be left out."""
        made = self.history.simplifying
        best = self.best() if len(made) < MOST_LAUNCHES else None
        if best is None or self._baseline_is_equal():
            return None
        names = [n for n in self.changes(best) if can_leave_out(self.history, n)]
        if not names:
            return None
        alone = dict(zip(names, self._chances([self.without(best, {n}) for n in names]), strict=True))
        order = sorted(names, key=lambda name: -alone[name])
        worth: dict[Setting, float] = {}
        for number, name in enumerate(order, start=1):
            part = self.without(best, order[:number])
            # What knobs do is mostly nothing, so a part is as likely as the least likely of them.
            if alone[name] >= LEAST_CHANCE and self.changes(part) and self.group(part) is None:
                worth[part] = number * alone[name]
        return max(worth, key=lambda part: worth[part], default=None)

    def without(self, setting: Setting, names: Collection[str]) -> Setting:
        """The (canonical) setting with these knobs as they are."""
        kept = {name: value for name, value in setting.items if name not in names}
        return self.history.pooling.canonical(space.there(self.history.knobs, kept))

    @property
    def _tolerance(self) -> float:
        return math.log1p(self.history.spec.precision)

    def _chances(self, settings: Sequence[Setting]) -> list[float]:
        """How likely each is equal to what was found."""
        drawn = self.slower(settings) if settings else []
        return [sum(each <= self._tolerance for each in draws) / len(draws) for draws in drawn]

    def _baseline_is_equal(self) -> bool:
        """True if there is nothing to be had: the baseline is kept."""
        known = self.group(self.history.default)
        if known is None or not known.finished or self.history.spec.fixed.items:
            return False
        (draws,) = self.slower([self.history.default])
        return math.fsum(draws) / len(draws) <= self._tolerance


def _is_near(group: Group, best: Group) -> bool:
    """True if a setting ran to its end, not far slower than the best."""
    known, least = group.estimate(0.05), best.estimate(0.05)
    if not group.finished or known is None or least is None:
        return False
    return known[0] <= least[0] + math.log(_FAR)


def can_leave_out(history: History, name: str) -> bool:
    """Whether a knob may be left to the program: the command and the job can do without it."""
    spec = history.spec
    knob: Knob = next(each for each in spec.knobs if each.name == name)
    if name in history.pooling.fixed:
        return False
    return knob.default is not None or all(
        command.can_leave_out(template, name) for template in (spec.command, spec.job)
    )
