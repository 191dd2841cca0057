"""Two studies of one setting each, launched by pairs on a synthetic machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import BEST, CRASH, SPEC, events_of, ran
from tuner.launch.request import MeasurementRequest
from tuner.model import Ending, Layout, Observation, Outcome, Purpose, Setting, StudySpec
from tuner.model import StudyState as State
from tuner.model.errors import UsageError
from tuner.store.store import Store
from tuner.study.events import Note
from tuner.study.interruption import StudyInterrupted
from tuner.study.pairing import Pairs
from tuner.study.pairs_of_studies import ByPairs, Fails

ONE, TWO = (
    replace(SPEC, name=f"job-1x{ranks}", layout=Layout(ranks), fixed=BEST, compare="auto")
    for ranks in (1, 2)
)
BOTH = (ONE, TWO)


@dataclass
class Machine:
    """Runs launches that take so long by their ranks, and keeps whose turn it was."""

    times: dict[int, float | Ending]
    observed: Observation = field(default_factory=Observation)
    before: Callable[[int], None] = lambda _: None
    launched: list[tuple[Purpose, int]] = field(default_factory=list)

    def __call__(self, request: MeasurementRequest) -> Outcome:
        self.before(len(self.launched))
        ranks = request.spec.layout.ranks
        self.launched.append((request.purpose, ranks))
        request.launch.out_dir.mkdir(parents=True)
        return replace(ran(self.times[ranks]), observation=self.observed)

    @property
    def order(self) -> list[int]:
        """The ranks of the launches that count."""
        return [ranks for purpose, ranks in self.launched if purpose is Purpose.RECORD]


def launch(
    folder: Path,
    machine: Machine,
    specs: Sequence[StudySpec] = BOTH,
    enough: int = 3,
    events: list[Any] | None = None,
    **options: Any,
) -> Pairs | Fails:
    by_pairs = ByPairs(str(folder / "tune.db"), run=machine, **options)
    hears = ([] if events is None else events).append
    return by_pairs.launch(specs, [hears, hears], lambda pairs: len(pairs.launches) >= enough)


def test_each_is_first_in_every_other_pair_and_no_pair_is_launched_again(folder: Path) -> None:
    machine = Machine({1: 4.0, 2: 2.0})
    first = launch(folder, machine)
    assert isinstance(first, Pairs) and first.is_side_by_side
    assert machine.launched[:2] == [(Purpose.WARM_UP, 1), (Purpose.WARM_UP, 2)]
    assert machine.order == [1, 2, 2, 1, 1, 2]
    assert first.costs == ([4.0] * 3, [2.0] * 3)
    gain = first.gain
    assert gain.ratio == pytest.approx(2.0) and gain.low < 2.0 < gain.high
    again = Machine({})
    assert launch(folder, again) == first and not again.launched
    machine = Machine({1: 4.0, 2: 2.0})
    pairs = launch(folder, machine, enough=5)
    assert isinstance(pairs, Pairs) and len(pairs.launches) == 5
    assert machine.order == [2, 1, 1, 2], "and a warm-up of each"
    other = [replace(spec, fixed=Setting()) for spec in BOTH]
    with pytest.raises(UsageError, match=r"stored study job-1x1 launched .*, not defaults"):
        launch(folder, Machine({}), other)
    anew = Machine({1: 4.0, 2: 4.0})
    assert isinstance(launch(folder, anew, fresh=True), Pairs) and len(anew.order) == 6


@pytest.mark.parametrize("in_turn", [False, True])
def test_after_an_interruption_what_was_measured_counts(folder: Path, *, in_turn: bool) -> None:
    specs = [replace(s, compare="in-turn" if in_turn else "auto", warm_ups=0) for s in BOTH]

    def interrupt(count: int) -> None:
        if count == 2 + 3:
            raise KeyboardInterrupt

    first = Machine({1: 4.0, 2: 2.0}, before=interrupt)
    with pytest.raises(StudyInterrupted):
        launch(folder, first, specs)
    second = Machine({1: 4.0, 2: 2.0})
    pairs = launch(folder, second, specs)
    assert isinstance(pairs, Pairs) and pairs.is_side_by_side is not in_turn
    assert len(pairs.launches) == 3
    if in_turn:
        assert (first.order, second.order) == ([1, 2, 2, 1, 1], [2])
    else:  # the first two show that each works, and half of a pair says nothing
        assert (first.order, second.order) == ([1, 2, 1, 2, 2], [2, 1, 1, 2])


def test_what_fails_by_itself_is_named_and_is_put_beside_nothing(folder: Path) -> None:
    fails = launch(folder, Machine({1: 4.0, 2: CRASH}))
    assert isinstance(fails, Fails) and fails.spec == TWO
    assert "2 launches in a row failed" in fails.error.message
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        records = [record for spec in BOTH for record in store.launches(spec.name)]
        states = [store.load(spec.name).state for spec in BOTH]
    assert not any(record.outcome.side_by_side for record in records)
    assert states == [State.FINISHED, State.FAILED]
    mended = launch(folder, Machine({1: 4.0, 2: 2.0}))
    assert isinstance(mended, Pairs) and mended.is_side_by_side


def test_what_fails_beside_another_launch_is_compared_in_turn(folder: Path) -> None:
    machine, events = Machine({1: 4.0, 2: 2.0}), list[Any]()

    def fail_beside(count: int) -> None:
        machine.times[2] = CRASH if count == 3 else 2.0

    machine.before = fail_beside
    pairs = launch(folder, machine, events=events)
    assert isinstance(pairs, Pairs) and not pairs.is_side_by_side
    assert machine.order == [1, 2, 1, 2, 2, 1, 1, 2]
    (note,) = events_of(Note, events)
    assert note.text.startswith("compared in turn, not side by side: launch 2 failed beside")
    again = Machine({})
    assert launch(folder, again) == pairs and not again.launched


def test_what_writes_one_file_or_runs_on_other_hosts_is_compared_in_turn(
    folder: Path, folders: Callable[[str], Path]
) -> None:
    events: list[Any] = []
    writes = Machine({1: 4.0, 2: 2.0}, observed=Observation(written=("/home/me/model.pt",)))
    assert isinstance(launch(folder, writes, events=events), Pairs)
    assert writes.order == [1, 2, 2, 1, 1, 2]
    on_hosts = [
        replace(spec, layout=Layout(spec.layout.ranks, hosts, (1,) * len(hosts)))
        for spec, hosts in zip(BOTH, [("h1",), ("h1", "h2")], strict=True)
    ]
    machine = Machine({1: 4.0, 2: 2.0})
    pairs = launch(folders("hosts"), machine, on_hosts, events=events)
    assert isinstance(pairs, Pairs) and not pairs.is_side_by_side
    assert machine.order == [1, 2, 2, 1, 1, 2]
    warm_ups = [ranks for purpose, ranks in machine.launched if purpose is Purpose.WARM_UP]
    assert sorted(warm_ups) == [1, 2]
    assert [note.text for note in events_of(Note, events)] == [
        f"compared in turn, not side by side: {why}"
        for why in ("both write /home/me/model.pt", "the studies run on several hosts")
    ]
