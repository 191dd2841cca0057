"""Two launches side by side: in turns, each to its end, and nothing of them is left."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import SPEC
from tuner.hosts import process
from tuner.launch import side_by_side
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Finished, Launch, Layout, ObjectiveSpec, Outcome, Stopped
from tuner.model.outcome import PACE

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


#: Logs every 10 of so many iterations of as many rounds; prints how long they took by its clock.
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
print(f"took {time.monotonic() - zero:.4f} s")
"""


def logs(tmp_path: Path, iterations: int, rounds: int) -> str:
    program = tmp_path / "logs.py"
    program.write_text(LOGS)
    return f"exec $PYTHON {program} {iterations} {rounds}"


def test_the_time_of_a_log_is_without_the_pauses(tmp_path: Path) -> None:
    script = logs(tmp_path, 30, 1_000_000)
    for outcome in side_by_side.run(requests(tmp_path, script, script, objective=ObjectiveSpec())):
        last = outcome.progress[-1].elapsed_s
        assert last <= outcome.wall_s, "the program's clock went on for about twice as long"
        assert cost(outcome) == pytest.approx(last, rel=0.01), "of the same entries"


def test_the_longer_one_ends_once_its_pace_is_known(tmp_path: Path) -> None:
    scripts = [logs(tmp_path, 200, rounds) for rounds in (200_000, 2_000_000)]
    outcomes = side_by_side.run(
        requests(tmp_path, *scripts, objective=ObjectiveSpec(), iterations=200)
    )
    quick, slow = outcomes
    assert isinstance(slow.ending, Stopped) and slow.ending.rule == PACE
    assert slow.progress[-1].iteration < 200, "it was not run to its end"
    assert slow.ending.projection_s > 4 * cost(quick), "but said to be far slower"


def test_a_clock_that_goes_on_in_the_pauses_is_compared_all_the_same(tmp_path: Path) -> None:
    scripts = [logs(tmp_path, 10, rounds) for rounds in (6_000_000, 18_000_000)]
    short, long = side_by_side.run(requests(tmp_path, *scripts, objective=SECONDS))
    # Most of the longer one is after the end of the other.
    assert 1.8 < cost(long) / cost(short) < 5, "three times as much work"
    (first, *_), (*_, last) = slices(long)[0], slices(long)[-1]
    assert long.wall_s < 0.7 * (last - first), "it kept its pauses"
