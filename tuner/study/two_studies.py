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

from tuner.config.program import check_name
from tuner.launch.secrets import recorded_environment
from tuner.live.measurement import TrialRunner
from tuner.model import LaunchRecord, Purpose, StudySpec, StudyState
from tuner.model.errors import LimitReachedError, NothingMeasuredError
from tuner.store.identity import identity, require_same
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study import outputs, pairs_of_studies, plugins
from tuner.study.confirmation import FAILURES
from tuner.study.events import Event, Note
from tuner.study.fixed_setting import FixedSetting
from tuner.study.history import History
from tuner.study.interruption import Interruption, StudyInterrupted
from tuner.study.loop import StudyContext, StudyRun, give_up, launch_together
from tuner.study.pairing import cost
from tuner.study.pairs_of_studies import Pairs
from tuner.study.policy import Step
from tuner.study.tuning import close, held, opened

#: Opens the studies of these sides (0 or 1), with their hosts held.
_Opener = Callable[..., AbstractContextManager[Sequence[StudyRun]]]


@dataclass(frozen=True)
class Fails:
    """The setting of one of two studies fails by itself, so that they cannot be compared."""

    spec: StudySpec
    error: NothingMeasuredError | LimitReachedError


@dataclass
class ByPairs:
    """Launches studies of one setting each by pairs, for one command: two studies at a time.

    Attributes:
        storage: The database.
        run_folder: The folder for what launches write. Default: beside the SQLite file.
        fresh: Delete what a study has when this command takes it up.
        wait: Wait while another process measures on this host.
        most_pairs: After so many pairs nothing more is launched; ``None``: as their rule has it.
        run: Runs a launch; :func:`tuner.launch.trial.run` if not given.
    """

    storage: str | None = None
    run_folder: Path | None = None
    fresh: bool = False
    wait: bool = False
    most_pairs: int | None = None
    run: TrialRunner | None = None
    _taken_up: set[str] = field(default_factory=set)  # studies that this command has warmed up

    def launch(
        self,
        specs: Sequence[StudySpec],
        on_event: Sequence[Callable[[Event], None]],
        is_enough: Callable[[Pairs], bool],
    ) -> Pairs | Fails:
        """Launch two studies by pairs until these are enough.

        They are launched side by side if nothing speaks against it, each first in every other pair.
        If there are enough pairs already, nothing is launched.

        Args:
            specs: The two; what each fixes is launched.
            on_event: Hears of the events of each.
            is_enough: Is asked after each pair. There are at most as many as their rule allows.

        Returns:
            What the pairs show, or which of the two fails by itself.

        Raises:
            StudyInterrupted: Ended by a signal; what was measured is kept.
            TunerError: What :func:`tuner.study.tune` raises.
        """
        for spec in specs:
            check_name(spec.name)
            plugins.check(spec)
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
                except KeyboardInterrupt as error:  # a result would be of one of them
                    raise StudyInterrupted(stop.signal_number or SIGINT, None) from error
            if (failing := two.failing()) is None:
                return two.pairs
            fails = Fails(specs[failing], two.failure(failing))
            store.set_state(fails.spec.name, StudyState.FAILED, fails.error.message)
            return fails

    def _stored(self, context: StudyContext) -> History:
        """Return what is stored of a study and counts."""
        store, spec = context.store, context.spec
        row = None if self._is_to_delete(spec) else store.find(spec.name)
        if row is None:
            return History.judged(spec, ())
        require_same(spec.name, row.identity, identity(spec))
        return History.judged(spec, store.launches(spec.name))

    def _is_to_delete(self, spec: StudySpec) -> bool:
        return self.fresh and spec.name not in self._taken_up

    def _measure(self, two: _TwoStudies) -> None:
        """Launch what is missing, with the hosts of both held throughout, or those of each launch.

        Two studies on other hosts cannot both be held: hosts of the one may be hosts of the other.
        """
        for context in two.contexts:
            outputs.prepare(context.folder)
        layouts = [context.spec.layout for context in two.contexts]
        if layouts[0] == layouts[1] or all(layout.is_local for layout in layouts):
            with self._opened(two, 0, 1) as runs:
                two.measure(lambda *sides: nullcontext([runs[side] for side in sides]))
        else:
            two.measure(lambda *sides: self._opened(two, *sides))

    @contextmanager
    def _opened(self, two: _TwoStudies, *sides: int) -> Iterator[Sequence[StudyRun]]:
        """Hold the hosts of studies, and take these up."""
        first, *others = (two.contexts[side] for side in sides)
        with ExitStack() as stack:
            first, live = stack.enter_context(held(first, self.run, None, wait=self.wait))
            same_hosts = (replace(c, marker=first.marker, hosts=first.hosts) for c in others)
            runs: list[StudyRun] = []
            for context in (first, *same_hosts):
                fresh = self._is_to_delete(context.spec)
                is_real = self.run is None and not runs  # the host is looked at once
                study_run = opened(context, live, fresh=fresh, is_real=is_real)
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
    """Two studies whose settings are launched by pairs.

    Attributes:
        contexts: What each is for.
        histories: Their launches so far.
        is_enough: Is asked after each pair.
        most_pairs: There are at most so many; ``None``: as their rule has it.
        why_in_turn: Why they are not launched side by side; ``None``: they are.
    """

    contexts: Sequence[StudyContext]
    histories: list[History]
    is_enough: Callable[[Pairs], bool]
    most_pairs: int | None
    why_in_turn: str | None = None
    _judged: tuple[int, bool] = (0, False)  # so many pairs, and whether they were enough

    def __post_init__(self) -> None:
        self._choose([history.records for history in self.histories])

    @property
    def pairs(self) -> Pairs:
        """The pairs that count, made as they are made now."""
        return Pairs.of(self.histories, self.most_pairs, in_turn=self.why_in_turn is not None)

    def is_over(self) -> bool:
        """Return whether there are enough pairs; each is judged once."""
        pairs = self.pairs
        count, (judged, is_enough) = len(pairs.launches), self._judged
        if count != judged:
            rule = pairs.rule
            is_enough = count >= rule.least_pairs and self.is_enough(pairs)
            is_enough = is_enough or count >= rule.most_pairs
            self._judged = count, is_enough
        return is_enough

    def measure(self, opened: _Opener) -> None:
        """Launch pairs until they are enough, or one of the two fails by itself."""
        while self.failing() is None and (alone := self._not_yet_run()) is not None:
            self._launch(opened, alone)
        self._choose([c.store.launches(c.spec.name) for c in self.contexts])  # with their ranks
        said = ""
        while not self.is_over() and self.failing() is None:
            if self.why_in_turn and not said:
                said = f"compared in turn, not side by side: {self.why_in_turn}"
                self.contexts[1].emit(Note(said))
            pairs = self.pairs
            first = len(pairs.launches) % 2
            if pairs.is_side_by_side:
                self._launch(opened, first, 1 - first)
                records = [history.records for history in self.histories]
                self.why_in_turn = pairs_of_studies.why_impossible(records) or None
            else:
                self._launch(opened, first if pairs.unpaired is None else 1 - pairs.unpaired)

    def _choose(self, records: Sequence[Sequence[LaunchRecord]]) -> None:
        """Choose how they are launched, by what earlier launches have shown."""
        specs = [context.spec for context in self.contexts]
        self.why_in_turn = pairs_of_studies.why_in_turn(specs, records)

    def _launch(self, opened: _Opener, *sides: int) -> None:
        """Launch one setting, or both side by side."""
        with opened(*sides) as runs:
            steps = [(run, Step(Purpose.RECORD, run.spec.fixed)) for run in runs]
            trials = [(run, trial) for run, step in steps for trial in run.ask(step)]
            launch_together(trials)
            for side, run in zip(sides, runs, strict=True):
                self.histories[side] = run.history

    def _not_yet_run(self) -> int | None:
        """Return a study none of whose launches has come to its end: beside another it may fail."""
        return next(
            (
                side
                for side, history in enumerate(self.histories)
                if not any(record.outcome.samples for record in history.records)
            ),
            None,
        )

    def failing(self) -> int | None:
        """Return which of the two fails by itself; ``None``: neither."""
        counts = [len(_failures(history)) for history in self.histories]
        return next((side for side, count in enumerate(counts) if count >= FAILURES), None)

    def failure(self, side: int) -> NothingMeasuredError | LimitReachedError:
        """Return the error for a study that fails."""
        history = self.histories[side]
        try:
            give_up(_failures(history), objective=history.spec.objective)
        except (NothingMeasuredError, LimitReachedError) as error:
            return error


def _failures(history: History) -> list[LaunchRecord]:
    """Return the launches by themselves that show nothing of what their setting takes."""
    alone = (record for record in history.valid if record.outcome.side_by_side is None)
    return [record for record in alone if cost(record) is None]


def _environment(spec: StudySpec) -> dict[str, str]:
    """Return what its launches inherit: what bears on speed has the values that it had then."""
    now = dict(os.environ)
    for name in recorded_environment(now):
        del now[name]
    return now | dict(spec.environment)
