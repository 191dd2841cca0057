"""Which settings come to the same on this machine: a pure function of the effects of launches.

Every finished launch says per knob whether its value was honoured, capped or overridden
(:class:`tuner.model.Effect`). From these follows one canonical form for each setting; the
samples of settings with the same form are samples of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tuner.knobs.conditions import active, parents_first
from tuner.knobs.requirements import requirements_of
from tuner.knobs.space import values
from tuner.model import (
    Effect,
    Env,
    Finished,
    Knob,
    LauncherOption,
    LaunchRecord,
    Prefix,
    Setting,
    Stopped,
    StudySpec,
    Value,
    Verdict,
)


@dataclass(frozen=True)
class Pooling:
    """Which settings of a study run the program in the same way, by the effects of its launches.

    ``caps`` holds per knob the value that every larger one comes to; ``dropped`` the knobs
    that the program overrides, with the reason; ``unchanged`` the values that come to the same as
    leaving the knob out. Effects that contradict each other change none of these.
    """

    knobs: tuple[Knob, ...] = ()
    fixed: frozenset[str] = frozenset()
    caps: Mapping[str, int] = field(default_factory=dict)
    dropped: tuple[tuple[str, str], ...] = ()
    unchanged: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def from_records(cls, spec: StudySpec, records: Iterable[LaunchRecord]) -> Pooling:
        """Learn from the launches that got as far as an entry in their log, in any order."""
        fixed = frozenset(name for name, _ in spec.fixed.items)
        # Requirements hold for the values as they are set, whatever these come to.
        never_pooled = fixed | requirements_of(spec).names
        effects: dict[str, list[Effect]] = {knob.name: [] for knob in spec.knobs}
        for outcome in (record.outcome for record in records):
            is_cut = isinstance(outcome.ending, Stopped) and bool(outcome.progress)
            # A launch that got less far may not have started all its threads and workers.
            if is_cut or isinstance(outcome.ending, Finished):
                for effect in outcome.effects:
                    effects.setdefault(effect.knob, []).append(effect)
        caps: dict[str, int] = {}
        dropped: dict[str, str] = {}
        for name in (knob.name for knob in spec.knobs if knob.name not in never_pooled):
            if reason := _override(effects[name]):
                dropped[name] = reason
            elif (cap := _cap(effects[name], _least_cap(spec))) is not None:
                caps[name] = cap
        for knob in parents_first(spec.knobs):
            for parent, _ in knob.when:
                if parent in dropped:
                    dropped.setdefault(knob.name, f"it depends on {parent}, which has no effect")
        return cls(tuple(spec.knobs), fixed, caps, tuple(dropped.items()), _unchanged(spec))

    def canonical(self, setting: Setting) -> Setting:
        """Return the setting that stands for all settings with the same effect as this one.

        A knob without effect is left out; a value at or above the cap becomes the smallest such
        value of the knob's domain. A knob that a setting leaves out gets its value in `unchanged`.
        The baseline stays as it is.
        """
        return setting if setting.is_baseline else self.filled(setting)

    def filled(self, setting: Setting) -> Setting:
        """Return the same as :meth:`canonical`, but the baseline, too, gets its known values."""
        if setting not in self._filled:
            self._filled[setting] = self._canonical_form(setting)
        return self._filled[setting]

    @cached_property
    def _filled(self) -> dict[Setting, Setting]:
        return {}

    def _canonical_form(self, setting: Setting) -> Setting:
        """Return a setting with the values that its own come to, and without knobs of no effect."""
        dropped = {name for name, _ in self.dropped}
        when = {knob.name: knob.when for knob in self.knobs}
        chosen = setting.as_dict()
        for name in self._fillable:
            parents = [parent for parent, _ in when[name] if parent in when.keys() - dropped]
            if name not in chosen and all(parent in chosen for parent in parents):
                chosen[name] = self.unchanged[name]
        effective = {n: self.capped(n, value) for n, value in chosen.items() if n not in dropped}
        # A condition on a knob that the setting lacks is ignored: it may not have been tuned then.
        conditions = {
            name: tuple((p, values) for p, values in when.get(name, ()) if p in effective)
            for name in effective
        }
        names = active(conditions, effective)
        return Setting.of((name, value) for name, value in effective.items() if name in names)

    def changed(self, setting: Setting) -> Setting:
        """Return the setting with only what it changes of the defaults, and what the user fixed."""
        default = {name: self.capped(name, value) for name, value in self.unchanged.items()}
        return Setting.of(
            (name, value)
            for name, value in setting.items
            if name in self.fixed or default.get(name) != value
        )

    def short(self, setting: Setting) -> Setting:
        """Return the same as :meth:`changed`, but the whole setting if it changes nothing.

        An empty setting would be taken for the baseline.
        """
        reduced = self.changed(setting)
        return setting if reduced.is_baseline else reduced

    @cached_property
    def _fillable(self) -> list[str]:
        """The knobs that have a known value where a setting leaves them out, parents first."""
        names = self.unchanged.keys() - self.fixed
        return [knob.name for knob in parents_first(self.knobs) if knob.name in names]

    def capped(self, name: str, value: Value) -> Value:
        """Return what a value of a knob that is not dropped comes to."""
        cap = self.caps.get(name)
        if cap is None or name in self.fixed or not isinstance(value, int) or value < cap:
            return value
        return self._least_capped.get(name, value)

    @cached_property
    def _least_capped(self) -> dict[str, int]:
        """Per capped knob the smallest value of its domain at or above the cap."""
        capped_values = {
            knob.name: [v for v in values(knob.domain) if isinstance(v, int) and v >= cap]
            for knob in self.knobs
            if (cap := self.caps.get(knob.name)) is not None
        }
        return {name: min(numbers) for name, numbers in capped_values.items() if numbers}


def _unchanged(spec: StudySpec) -> dict[str, Value]:
    """Return per knob the value that comes to the same as leaving the knob out, if known."""
    environ, unchanged = dict(spec.environment), dict[str, Value]()
    for knob in spec.knobs:
        is_set = isinstance(knob.route, Env) and any(name in environ for name in knob.route.names)
        value = knob.neutral if knob.default is None and not is_set else knob.default
        if value is not None and value in values(knob.domain):
            unchanged[knob.name] = value
    return unchanged


def _least_cap(spec: StudySpec) -> int:
    """Return the smallest cap to believe: with several bindings a lower one may come from one."""
    is_binding_tuned = any(
        isinstance(knob.route, LauncherOption | Prefix) and len(values(knob.domain)) > 1
        for knob in spec.knobs
    )
    return spec.machine.cores if is_binding_tuned else 1


def _override(effects: Sequence[Effect]) -> str:
    """Return why the program overrides a knob; empty if it does not.

    It does if all launches used the same value: one that was honoured must be the very value that
    the program sets anyway.
    """
    observed = [effect for effect in effects if effect.verdict is not Verdict.NOT_OBSERVABLE]
    overridden = [effect for effect in observed if effect.verdict is Verdict.OVERRIDDEN]
    used_values = {
        e.asked if e.observed is None and e.verdict is Verdict.HONOURED else e.observed
        for e in observed
    }
    if not overridden or len(used_values) > 1:
        return ""
    used = used_values.pop()
    if used is None and len(observed) < len(effects):
        return ""
    why = "the program does not use it" if used is None else f"the program always uses {used}"
    return min((effect.reason for effect in overridden if effect.reason), default=why)


def _cap(effects: Sequence[Effect], least: int) -> int | None:
    """Return the largest value, from ``least`` on, that a launch came to; ``None``: no cap.

    Samples may miss threads of a launch, so the largest number is the most accurate.
    """
    honoured = [
        e.asked for e in effects if e.verdict is Verdict.HONOURED and isinstance(e.asked, int)
    ]
    capped = [e.observed for e in effects if e.verdict is Verdict.CAPPED]
    cap = max((n for n in capped if isinstance(n, int) and n >= least), default=None)
    return cap if cap is None or cap >= max(honoured, default=cap) else None
