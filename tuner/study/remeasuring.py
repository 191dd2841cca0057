"""The best settings of two studies, launched here by pairs: side by side, or in turn."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from tuner.hosts.machine import this_machine
from tuner.launch.secrets import HIDDEN, recorded_environment
from tuner.model import Failed, LaunchRecord, Purpose, Setting, StudySpec, StudyState
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.stats.pairs import IN_TURN, Rule, judge
from tuner.stats.scaling import SpeedUp
from tuner.store.identity import DEFAULTS, ROUTES, identity
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study import outputs, pairing
from tuner.study.confirmation import FAILURES
from tuner.study.events import Event, Note
from tuner.study.fixed_setting import FixedSetting
from tuner.study.interruption import Interruption
from tuner.study.loop import StudyContext, StudyRun, launch_together
from tuner.study.policy import Step
from tuner.study.tuning import close, held, opened, runnable


@dataclass(frozen=True)
class Pairs:
    """What the pairs show so far.

    Attributes:
        costs: Of the launches of each side, in the order of the pairs.
        gain: How many times as fast the second side is.
        is_side_by_side: How they were made; those that were made in the other way do not count.
    """

    costs: tuple[Sequence[float], Sequence[float]]
    gain: SpeedUp
    is_side_by_side: bool


def to_launch(store: Store, spec: StudySpec, best: Setting, typed: tuple[str, ...]) -> StudySpec:
    """Return the study ``NAME-again``, which launches the best setting of a stored one here.

    Args:
        store: Where the studies are.
        spec: The stored study.
        best: Its best setting.
        typed: The words after ``tune`` that ask for it.

    Raises:
        UsageError: A secret is not stored, this host lacks the program or mpirun, or a study of
            the user has that name.
    """
    name, option = f"{spec.name}-again", f"--remeasure {spec.name}"
    for variable in (key for key, value in spec.environment if HIDDEN in value):
        raise UsageError(
            f"{option}: the stored value of {variable} hides a secret, so it cannot be set",
            "tune it again without that variable",
        )
    stored = store.find(name)
    if stored is not None and stored.spec.typed[:1] != typed[:1]:
        hint = f"`tune studies --delete {name}` deletes it"
        raise UsageError(f"{option}: there is a study {name}, which is not of tune compare", hint)
    machine = this_machine() if spec.layout.is_local else spec.machine
    spec = replace(runnable(spec, option), name=name, machine=machine, fixed=best, typed=typed)
    return replace(spec, confirm="none", live="off", learn_from="none", lesson=None)


def require_comparable(specs: Sequence[StudySpec]) -> None:
    """Check that two studies of :func:`to_launch` can be compared.

    Raises:
        UsageError: Both launch one program in one folder, as the older one may be gone; or they
            need other hosts, of which some are not held.
    """
    layouts = [spec.layout for spec in specs]
    if layouts[0] != layouts[1] and not all(layout.is_local for layout in layouts):
        raise UsageError(
            "--remeasure: the studies do not have the same ranks on the same hosts",
            "tune both on the same hosts with the same ranks",
        )
    before, after = (identity(spec) | dict.fromkeys((ROUTES, DEFAULTS)) for spec in specs)
    if before == after:
        raise UsageError(
            "--remeasure: both studies launch one command in one folder and environment",
            "keep the program of before in a folder or a Python environment of its own",
        )


def launch_by_pairs(
    specs: Sequence[StudySpec],
    on_event: Sequence[Callable[[Event], None]],
    is_enough: Callable[[Pairs], bool],
    *,
    storage: str | None = None,
    wait: bool = False,
) -> Pairs:
    """Launch two studies of :func:`to_launch` by pairs; what they had is deleted first.

    They are launched side by side if nothing speaks against it, each first in every other pair.

    Args:
        specs: The two, with one layout if it has several hosts.
        on_event: Hears of the events of each.
        is_enough: Is asked after each pair. There are at most as many as their rule allows.
        storage: The database.
        wait: Wait while another process measures on this host.

    Raises:
        NothingMeasuredError: One of them fails; and what :func:`tuner.study.tune` raises.
    """
    url = resolve_url(storage, os.environ)
    with ExitStack() as stack:
        stop = stack.enter_context(Interruption())
        store = stack.enter_context(Store.open(url, create=True))
        contexts = [
            StudyContext(
                spec,
                store,
                outputs.study_folder(None, url, spec.name),
                emit,
                stop,
                FixedSetting(),
                environ=_environment(spec),
            )
            for spec, emit in zip(specs, on_event, strict=True)
        ]
        for context in contexts:
            outputs.prepare(context.folder)
        first, live = stack.enter_context(held(contexts[0], None, None, wait=wait))
        contexts = [first, replace(contexts[1], marker=first.marker, hosts=first.hosts)]
        runs = [stack.enter_context(opened(context, live, fresh=True)) for context in contexts]
        for run in runs:
            run.warm_up()
        shown = _TwoStudies(runs).measure(is_enough)
        for run in runs:
            close(run, StudyState.FINISHED, f"launched in {len(shown.costs[0])} pairs")
        return shown


@dataclass
class _TwoStudies:
    """Two studies whose settings are launched by pairs.

    Attributes:
        runs: The work on each.
        launched: The pairs that count, each with the launch of the first study first.
        why_in_turn: Why they are not launched side by side; ``None``: they are.
    """

    runs: Sequence[StudyRun]
    launched: list[Sequence[LaunchRecord]] = field(default_factory=list)
    why_in_turn: str | None = None

    def measure(self, is_enough: Callable[[Pairs], bool]) -> Pairs:
        """Launch pairs until they are enough."""
        self._choose(_why_in_turn(self.runs))
        while True:
            pair = self._launch(first=len(self.launched) % 2)
            self._require_to_work()
            if self.why_in_turn is None and (why := self._shown_impossible()):
                self._choose(why)
                self.launched.clear()
            elif all(pairing.cost(record) is not None for record in pair):
                self.launched.append(pair)
                shown = self._shown()
                rule, count = self._rule(), len(self.launched)
                if count >= rule.most_pairs or (count >= rule.least_pairs and is_enough(shown)):
                    return shown

    def _choose(self, why_in_turn: str | None) -> None:
        self.why_in_turn = why_in_turn
        if why_in_turn:
            text = f"compared in turn, not side by side: {why_in_turn}"
            self.runs[0].context.emit(Note(text))

    def _launch(self, first: int) -> list[LaunchRecord]:
        """Launch both settings; return what came of them, the first study first."""
        runs = [self.runs[first], self.runs[1 - first]]
        together = [runs] if self.why_in_turn is None else [[run] for run in runs]
        records: list[LaunchRecord] = []
        for some in together:
            trials = [
                (run, trial)
                for run in some
                for trial in run.ask(Step(Purpose.RECORD, run.spec.fixed))
            ]
            records += launch_together(trials)
        return records[::-1] if first else records

    def _require_to_work(self) -> None:
        """Raise ``NothingMeasuredError`` if the setting of one of them fails by itself."""
        for run in self.runs:
            failed = [r for r in run.history.valid if isinstance(r.outcome.ending, Failed)]
            if len(failed) >= FAILURES:
                name = run.spec.name
                raise NothingMeasuredError(
                    f"{name}: its setting fails", f"`tune show {name}` says why"
                )

    def _shown_impossible(self) -> str:
        return next(filter(None, (pairing.impossible(r.history.records) for r in self.runs)), "")

    def _rule(self) -> Rule:
        in_turn = self.why_in_turn is not None
        return IN_TURN if in_turn else pairing.rule_side_by_side(self.launched)

    def _shown(self) -> Pairs:
        costs = [[pairing.cost(pair[side]) or 0.0 for pair in self.launched] for side in (0, 1)]
        bounds = [any(pairing.is_bound(pair[side]) for pair in self.launched) for side in (0, 1)]
        is_side_by_side = self.why_in_turn is None
        # Of a side that was ended early only the least that it takes is known.
        sign = -1 if bounds[1] else 1
        logs = [sign * math.log(before / after) for before, after in zip(*costs, strict=True)]
        finding = judge(logs, 0.0, self._rule(), at_least=any(bounds), is_last=True)
        assert finding is not None
        gain = SpeedUp(finding.ratio, finding.low, finding.high or math.inf)
        if bounds[1]:
            gain = SpeedUp(1 / gain.ratio, 1 / gain.high, 1 / gain.low)
        return Pairs((costs[0], costs[1]), gain, is_side_by_side)


def _why_in_turn(runs: Sequence[StudyRun]) -> str | None:
    """Return why two studies, which have been warmed up, are launched in turn; ``None``: not so."""
    specs = [run.spec for run in runs]
    if any(spec.compare == "in-turn" for spec in specs):
        return ""
    if not specs[0].layout.is_local:
        return "the studies run on several hosts"
    if all(spec.compare == "side-by-side" for spec in specs):
        return None
    records = [run.history.records for run in runs]
    doubts = (doubt for spec in specs for doubt in pairing.doubts(spec, records))
    return next(doubts, None)


def _environment(spec: StudySpec) -> dict[str, str]:
    """Return what its launches inherit: what bears on speed has the values that it had then."""
    now = dict(os.environ)
    for name in recorded_environment(now):
        del now[name]
    return now | dict(spec.environment)
