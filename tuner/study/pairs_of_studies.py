"""Two studies of one setting each, which are launched by pairs: side by side, or in turn.

What they show follows from the launches of both, whoever made them: so the same command goes on
after an interruption, and makes only the pairs that are missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGINT

from tuner.config import program
from tuner.config.program import check_name
from tuner.hosts.machine import this_machine
from tuner.launch.secrets import HIDDEN, recorded_environment
from tuner.live.measurement import TrialRunner
from tuner.model import LaunchRecord, Purpose, Setting, StudySpec, StudyState
from tuner.model.errors import LimitReachedError, NothingMeasuredError, UsageError
from tuner.store.identity import DEFAULTS, ROUTES, identity, require_same
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study import outputs, pairing
from tuner.study.confirmation import FAILURES
from tuner.study.events import Event, Note
from tuner.study.giving_up import why_given_up
from tuner.study.history import History
from tuner.study.interruption import Interruption, StudyInterrupted
from tuner.study.loop import StudyContext, StudyRun, launch_together
from tuner.study.pairing import Pairs, cost
from tuner.study.policy import FixedSetting, Step
from tuner.study.tuning import close, hold_hosts, open_study, runnable

#: Opens the studies of the given sides (0, 1 or both), with their hosts held.
_Opener = Callable[..., AbstractContextManager[Sequence[StudyRun]]]


@dataclass(frozen=True)
class Fails:
    """The setting of one of two studies fails by itself, so that they cannot be compared."""

    spec: StudySpec
    error: NothingMeasuredError | LimitReachedError


@dataclass
class ByPairs:
    """Launches studies of one setting each by pairs, for one command: two studies at a time.

    The fields are arguments of :func:`tuner.study.tuning.tune`, apart from ``most_pairs``.
    """

    storage: str | None = None
    run_folder: Path | None = None
    fresh: bool = False  # deletes what a study has when this command takes it up
    wait: bool = False
    most_pairs: int | None = None  # None: as many as their rule allows
    run: TrialRunner | None = None
    _taken_up: set[str] = field(default_factory=set)  # studies that this command has warmed up

    def launch(
        self,
        specs: Sequence[StudySpec],
        on_event: Sequence[Callable[[Event], None]],
        is_enough: Callable[[Pairs], bool],
    ) -> Pairs | Fails:
        """Launch what two studies fix by pairs until these are enough, or one fails by itself.

        The studies are launched side by side if nothing speaks against it, each first in every
        other pair. If there are enough pairs already, nothing is launched. The errors are those of
        :func:`tuner.study.tuning.tune`.
        """
        for spec in specs:
            check_name(spec.name)
        url = resolve_url(self.storage, os.environ)
        with ExitStack() as stack:
            stop = stack.enter_context(Interruption())
            store = stack.enter_context(Store.open(url, create=True))
            contexts = [
                StudyContext(
                    spec,
                    store,
                    outputs.study_folder(self.run_folder, url, spec.name),
                    emit,
                    stop,
                    FixedSetting(),
                    environ=_environment(spec),
                )
                for spec, emit in zip(specs, on_event, strict=True)
            ]
            two = _TwoStudies(contexts, [*map(self._stored, contexts)], is_enough, self.most_pairs)
            if not two.is_over():
                try:
                    self._measure(two)
                except KeyboardInterrupt as error:  # a result would be of one of the two studies
                    raise StudyInterrupted(stop.signal_number or SIGINT, None) from error
            if (failing := two.failing()) is None:
                return two.pairs
            spec, failures = specs[failing], _failures(two.histories[failing])
            why = why_given_up(failures, objective=spec.objective)
            store.set_state(spec.name, StudyState.FAILED, why.message)
            return Fails(spec, why)

    def _stored(self, context: StudyContext) -> History:
        """Return the history of a study as it is stored; empty if this command deletes it."""
        store, spec = context.store, context.spec
        row = None if self._is_to_delete(spec) else store.find(spec.name)
        if row is None:
            return History.judged(spec, ())
        require_same(spec, row.identity)
        if row.spec.fixed != spec.fixed:
            text = f"the stored study {spec.name} launched {row.spec.fixed}, not {spec.fixed}"
            raise UsageError(text, f"`tune studies --delete {spec.name}` deletes it")
        return History.judged(spec, store.launches(spec.name))

    def _is_to_delete(self, spec: StudySpec) -> bool:
        return self.fresh and spec.name not in self._taken_up

    def _measure(self, two: _TwoStudies) -> None:
        """Launch what is missing, with the hosts of both held throughout, or those of each launch.

        Hosts of two layouts cannot be held together: a host may be in both of them.
        """
        for context in two.contexts:
            outputs.prepare(context.folder)
        layouts = [context.spec.layout for context in two.contexts]
        if layouts[0] == layouts[1] or all(layout.is_local for layout in layouts):
            with self._open_studies(two, 0, 1) as runs:
                two.measure(lambda *sides: nullcontext([runs[side] for side in sides]))
        else:
            two.measure(lambda *sides: self._open_studies(two, *sides))

    @contextmanager
    def _open_studies(self, two: _TwoStudies, *sides: int) -> Iterator[Sequence[StudyRun]]:
        """Hold the hosts of studies, and take these up."""
        first, *others = (two.contexts[side] for side in sides)
        with ExitStack() as stack:
            first, live = stack.enter_context(hold_hosts(first, self.run, None, wait=self.wait))
            same_hosts = (replace(c, marker=first.marker, hosts=first.hosts) for c in others)
            runs: list[StudyRun] = []
            for context in (first, *same_hosts):
                fresh = self._is_to_delete(context.spec)
                is_real = self.run is None and not runs  # the host is looked at once
                study_run = open_study(context, live, fresh=fresh, is_real=is_real)
                runs.append(stack.enter_context(study_run))
            for side, run in zip(sides, runs, strict=True):
                if run.spec.name not in self._taken_up:
                    self._taken_up.add(run.spec.name)
                    run.warm_up()
                two.histories[side] = run.history
            yield runs
            for run in runs:
                close(run, StudyState.FINISHED, "launched by pairs")


@dataclass
class _TwoStudies:
    """Two studies, with their launches so far, whose settings are launched by pairs."""

    contexts: Sequence[StudyContext]
    histories: list[History]
    is_enough: Callable[[Pairs], bool]
    most_pairs: int | None
    _why_in_turn: str | None = None  # None: they are launched side by side
    _last_verdict: tuple[int, bool] = (0, False)  # how many pairs, and whether they were enough

    def __post_init__(self) -> None:
        self._choose([history.records for history in self.histories])

    def _choose(self, records: pairing.Sides) -> None:
        """Choose between side by side and in turn, by what earlier launches have shown."""
        specs = [context.spec for context in self.contexts]
        in_pairs = [record for pair in pairing.side_by_side(records) for record in pair]
        self._why_in_turn = pairing.why_in_turn(specs, records, in_pairs)

    @property
    def _sides(self) -> list[list[LaunchRecord]]:
        return [[r for r in h.valid if r.purpose is Purpose.RECORD] for h in self.histories]

    @property
    def pairs(self) -> Pairs:
        """The pairs that count: those made in the way in which the next one is launched."""
        in_turn = self._why_in_turn is not None
        first, second = (h.expected_iterations(h.spec.fixed) or 0 for h in self.histories)
        pairs = Pairs.of(self._sides, in_turn=in_turn, most=self.most_pairs)
        return replace(pairs, iterations=(first, second))

    def is_over(self) -> bool:
        """Return whether there are enough pairs, as judged once for each number of them."""
        pairs = self.pairs
        count, (judged_count, is_enough) = len(pairs.launches), self._last_verdict
        if count != judged_count:
            rule = pairs.rule
            is_enough = count >= rule.least_pairs and self.is_enough(pairs)
            is_enough = is_enough or count >= rule.most_pairs
            self._last_verdict = count, is_enough
        return is_enough

    def measure(self, open_studies: _Opener) -> None:
        """Launch pairs until they are enough, or one of the two fails by itself."""
        while self.failing() is None and (new_side := self._not_yet_run()) is not None:
            self._launch(open_studies, new_side)
        self._choose([c.store.launches(c.spec.name) for c in self.contexts])  # with their ranks
        is_explained = False
        while not self.is_over() and self.failing() is None:
            if self._why_in_turn and not is_explained:
                is_explained = True
                text = f"compared in turn, not side by side: {self._why_in_turn}"
                self.contexts[1].emit(Note(text))
            first = len(self.pairs.launches) % 2
            if self._why_in_turn is None:
                self._launch(open_studies, first, 1 - first)
                pairs = pairing.side_by_side([history.records for history in self.histories])
                why = pairing.impossible([record for pair in pairs for record in pair])
                self._why_in_turn = why or None
            else:
                sides = [[r for r in side if cost(r) is not None] for side in self._sides]
                _, unpaired = pairing.one_after_the_other(sides)
                self._launch(open_studies, first if unpaired is None else 1 - unpaired)

    def _launch(self, open_studies: _Opener, *sides: int) -> None:
        """Launch one setting, or both side by side."""
        with open_studies(*sides) as runs:
            steps = [(run, Step(Purpose.RECORD, run.spec.fixed)) for run in runs]
            launch_together([(run, trial) for run, step in steps for trial in run.ask(step)])
            for side, run in zip(sides, runs, strict=True):
                self.histories[side] = run.history

    def _not_yet_run(self) -> int | None:
        """Return a side with no finished launch: it starts alone, as beside another it may fail."""
        for side, history in enumerate(self.histories):
            if not any(record.outcome.samples for record in history.records):
                return side
        return None

    def failing(self) -> int | None:
        """Return which of the two fails by itself; ``None``: neither."""
        counts = [len(_failures(history)) for history in self.histories]
        return next((side for side, count in enumerate(counts) if count >= FAILURES), None)


def _failures(history: History) -> list[LaunchRecord]:
    """Return the launches by themselves that show nothing of what their setting takes."""
    alone = (record for record in history.valid if record.outcome.side_by_side is None)
    return [record for record in alone if cost(record) is None]


def _environment(spec: StudySpec) -> dict[str, str]:
    """Return what launches inherit: this environment, with the study's values for what is timed.

    A value that is hidden in the study is this environment's.
    """
    inherited, values = dict(os.environ), dict(spec.environment)
    for name in recorded_environment(inherited).keys() - values.keys():
        del inherited[name]
    return inherited | {name: value for name, value in values.items() if HIDDEN not in value}


# --- the best settings of stored studies ----------------------------------------------------


def to_launch(store: Store, spec: StudySpec, best: Setting, typed: tuple[str, ...]) -> StudySpec:
    """Return the study ``NAME-again``, which launches the best setting of a stored one here.

    The words after ``tune`` that ask for it are ``typed``. It is a `UsageError` if a secret is not
    stored, the program was edited, this host lacks it or mpirun, or another command made a study
    of that name.
    """
    name, option = f"{spec.name}-again", f"to launch {spec.name}"
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
    spec = runnable(spec, option)
    programs = dict(program.fingerprints(spec.command, Path(spec.folder), spec.knobs))
    for file in (file for file, digest in spec.programs if programs.get(file) != digest):
        text = f"{option}: {file} was edited since that study began"
        raise UsageError(text, "keep the program of before in a folder of its own")
    return replace(again(spec, best), machine=machine, typed=typed)


def again(spec: StudySpec, best: Setting) -> StudySpec:
    """Return the study ``NAME-again``, which launches the best setting of a study."""
    spec = replace(spec, name=f"{spec.name}-again", fixed=best)
    return replace(spec, confirm="none", live="off", learn_from="none", lesson=None)


def require_comparable(specs: Sequence[StudySpec]) -> None:
    """Refuse two studies of :func:`to_launch` that measure different figures, or one program.

    If the program was changed in between, its older version is gone.
    """
    objectives = [replace(spec.objective, filename=None, loss_key="") for spec in specs]
    before, after = (identity(spec) | dict.fromkeys((ROUTES, DEFAULTS)) for spec in specs)
    if objectives[0] != objectives[1]:
        raise UsageError(
            f"the first study measures {before['objective']}, and the second {after['objective']}",
            "compare studies with one objective",
        )
    if before == after:
        raise UsageError(
            "both studies launch one command in one folder and environment",
            "keep the program of before in a folder or a Python environment of its own",
        )
