"""Two launches side by side: in turns, each to its end, and nothing of them is left."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.study_surface import SPEC
from tuner.hosts import process
from tuner.hosts.counters import HostCounters
from tuner.launch import side_by_side
from tuner.launch.request import MeasurementRequest
from tuner.model import (
    BASELINE,
    Failed,
    FailureKind,
    Finished,
    Launch,
    Layout,
    ObjectiveSpec,
    Outcome,
    Stopped,
)
from tuner.model.outcome import PACE
from tuner.search.throughput import steady_s

WALL = ObjectiveSpec(kind="wall")
SECONDS = ObjectiveSpec(kind="pattern", pattern=r"took ([0-9.]+) s", unit="s")


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "LEAST_S", 0.1)


def requests(
    folder: Path, *scripts: str, objective: ObjectiveSpec = WALL, iterations: int | None = None
) -> list[MeasurementRequest]:
    """Requests 1, 2, … of shell scripts, whose ``$OUT`` is the folder for what they write."""
    result = []
    for number, script in enumerate(scripts, 1):
        own = folder / str(number)
        environ = {**os.environ, "OUT": str(own / "out"), "PYTHON": sys.executable}
        launch = Launch(("sh", "-c", script), environ, folder, own / "out", own)
        spec = replace(SPEC, objective=objective, layout=Layout(1))
        request = MeasurementRequest(launch, spec, BASELINE, number=number)
        result.append(replace(request, expected_iterations=iterations))
    return result


def slices(outcome: Outcome) -> Sequence[tuple[float, float]]:
    assert outcome.side_by_side is not None
    return outcome.side_by_side.slices


def cost(outcome: Outcome) -> float:
    assert isinstance(outcome.ending, Finished), outcome.ending
    return outcome.ending.elapsed_s


def test_they_take_turns_and_only_one_runs(tmp_path: Path) -> None:
    beats = "for i in 1 2 3 4 5 6 7 8; do date +%s.%N >> {}; sleep 0.1; done"
    scripts = [beats.format(tmp_path / f"beats-{side}") for side in (0, 1)]
    outcomes = side_by_side.run(requests(tmp_path, *scripts))
    assert [outcome.side_by_side and outcome.side_by_side.other for outcome in outcomes] == [2, 1]
    both = sorted((span, side) for side in (0, 1) for span in slices(outcomes[side]))
    assert [side for _, side in both][:8] == [0, 1, 1, 0, 0, 1, 1, 0]
    for ((_, end_s), _), ((begin_s, _), _) in itertools.pairwise(both):
        assert end_s <= begin_s, "one after the other"
    for side in (0, 1):
        assert cost(outcomes[side]) <= sum(
            end_s - begin_s for begin_s, end_s in slices(outcomes[side])
        )
        assert len((tmp_path / f"beats-{side}").read_text().split()) == 8


def test_who_else_wants_a_cpu_is_seen_while_both_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = (HostCounters(0.0, runnable=threads) for threads in itertools.count(1))
    host = SimpleNamespace(look=lambda: next(looks))
    monkeypatch.setattr(side_by_side, "CounterReader", lambda: host)
    outcomes = side_by_side.run(requests(tmp_path, "sleep 0.25", "sleep 0.25"))
    pairs = [outcome.side_by_side for outcome in outcomes if outcome.side_by_side]
    seen = [zip(pair.slices, pair.neighbours, strict=True) for pair in pairs]
    assert [threads for _, threads in sorted(itertools.chain(*seen))][:3] == [0, 1, 2]


def test_it_is_seen_whether_a_launch_computes_or_waits(tmp_path: Path) -> None:
    loop = "n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done"
    busy, waiting = (
        outcome.side_by_side for outcome in side_by_side.run(requests(tmp_path, loop, "sleep 1.5"))
    )
    assert busy is not None and busy.at_work and all(busy.at_work[1:-1])
    assert waiting is not None and waiting.at_work and not any(waiting.at_work[1:])


def test_beside_one_that_fails_nothing_goes_on(tmp_path: Path) -> None:
    outcomes = side_by_side.run(requests(tmp_path, "sleep 0.3; exit 3", "sleep 60"))
    failed, ended = (outcome.ending for outcome in outcomes)
    assert isinstance(failed, Failed) and failed.kind is FailureKind.CRASHED
    assert isinstance(ended, Failed) and ended.kind is FailureKind.INTERRUPTED


def test_whatever_is_raised_both_are_ended(tmp_path: Path) -> None:
    trials: list[process.SupervisedCommand] = []

    def start(launch: Launch) -> process.SupervisedCommand:
        trials.append(process.start(launch))
        return trials[-1]

    def cancelled() -> bool:
        if len(trials) == 2:
            raise KeyboardInterrupt
        return False

    endless = [replace(r, cancelled=cancelled) for r in requests(tmp_path, *["sleep 60"] * 2)]
    with pytest.raises(KeyboardInterrupt):
        side_by_side.run(endless, start=start)
    ended: list[Callable[[], process.Exit | None]] = [trial.poll for trial in trials]
    assert len(ended) == 2 and all(poll() is not None for poll in ended)


#: Logs every 10 of so many iterations of as many rounds.
LOGS = """
import json, os, pathlib, sys, time
iterations, rounds = map(int, sys.argv[1:])
out, zero, entries = pathlib.Path(os.environ["OUT"]), time.monotonic(), []
for iteration in range(10, iterations + 1, 10):
    done = 0
    for _ in range(rounds):
        done += 1
    entries.append({"iteration": iteration, "elapsed_time": time.monotonic() - zero})
    (out / "new").write_text(json.dumps(entries))
    (out / "new").rename(out / "log")
"""


def logs(tmp_path: Path, iterations: int, rounds: int) -> str:
    program = tmp_path / "logs.py"
    program.write_text(LOGS)
    return f"exec $PYTHON {program} {iterations} {rounds}"


@pytest.mark.parametrize("statistic", ["last", "steady"])
def test_the_time_of_a_log_is_without_the_pauses(tmp_path: Path, statistic: str) -> None:
    objective, script = ObjectiveSpec(statistic=statistic), logs(tmp_path, 30, 2_000_000)
    for outcome in side_by_side.run(requests(tmp_path, script, script, objective=objective)):
        last = outcome.progress[-1].elapsed_s
        assert last <= outcome.wall_s, "the program's clock went on for about twice as long"
        figure_s: float | None = last
        if statistic == "steady":
            figure_s = steady_s([(entry.iteration, entry.elapsed_s) for entry in outcome.progress])
        assert cost(outcome) == pytest.approx(figure_s, rel=0.01), "of the same entries"


def test_the_longer_one_ends_once_its_pace_is_known(tmp_path: Path) -> None:
    scripts = [logs(tmp_path, 200, rounds) for rounds in (200_000, 2_000_000)]
    outcomes = side_by_side.run(
        requests(tmp_path, *scripts, objective=ObjectiveSpec(), iterations=200)
    )
    quick, slow = outcomes
    assert isinstance(slow.ending, Stopped) and slow.ending.rule == PACE
    assert slow.progress[-1].iteration < 200, "it was not run to its end"
    assert slow.ending.projection_s > 4 * cost(quick), "but said to be far slower"


#: Prints how long so many rounds took by its own clock.
TIMES = """
import sys, time
rounds, zero, done = int(sys.argv[1]), time.monotonic(), 0
for _ in range(rounds):
    done += 1
print(f"took {time.monotonic() - zero:.4f} s")
"""


def test_a_clock_that_goes_on_in_the_pauses_is_compared_all_the_same(tmp_path: Path) -> None:
    program = tmp_path / "times.py"
    program.write_text(TIMES)
    scripts = [f"exec $PYTHON {program} {rounds}" for rounds in (15_000_000, 45_000_000)]
    short, long = side_by_side.run(requests(tmp_path, *scripts, objective=SECONDS))
    # Most of the longer one is after the end of the other.
    assert 1.8 < cost(long) / cost(short) < 5, "three times as much work"
    (first, *_), (*_, last) = slices(long)[0], slices(long)[-1]
    assert long.wall_s < 0.7 * (last - first), "it kept its pauses"
