"""Two launches side by side: in turns, each to its end, and nothing of them is left."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.study_surface import SPEC
from tuner.hosts import process
from tuner.launch import side_by_side
from tuner.launch.request import MeasurementRequest
from tuner.model import BASELINE, Failed, FailureKind, Finished, Launch, Layout, ObjectiveSpec
from tuner.search.throughput import steady_s

WALL = replace(SPEC, objective=ObjectiveSpec(kind="wall"))


def requests(folder: Path, *scripts: str) -> list[MeasurementRequest]:
    made = []
    for side, script in enumerate(scripts):
        own = folder / str(side)
        launch = Launch(("sh", "-c", script), os.environ, folder, own / "out", own)
        made.append(MeasurementRequest(launch, WALL, BASELINE))
    return made


@pytest.mark.parametrize("first", [0, 1])
def test_they_take_turns_and_only_one_runs(tmp_path: Path, first: int) -> None:
    beats = "for i in 1 2 3 4 5 6 7 8; do date +%s.%N >> {}; sleep 0.1; done"
    both = requests(tmp_path, *(beats.format(tmp_path / f"beats-{side}") for side in (0, 1)))
    pair = side_by_side.run(both, slice_s=0.2, first=first)
    assert all(isinstance(outcome.ending, Finished) for outcome in pair.outcomes)
    order = [slice_.side for slice_ in pair.slices]
    other = 1 - first
    assert order[:4] == [first, other, other, first]
    for before, after in itertools.pairwise(pair.slices):
        assert before.end_s <= after.begin_s, "one after the other"
    for side in (0, 1):
        spans = [s.end_s - s.begin_s for s in pair.slices if s.side == side]
        assert pair.outcomes[side].wall_s <= sum(spans)
        assert len((tmp_path / f"beats-{side}").read_text().split()) == 8


def test_what_fails_leaves_the_other_to_its_end(tmp_path: Path) -> None:
    pair = side_by_side.run(requests(tmp_path, "exit 3", "sleep 0.6"), slice_s=0.2)
    failed, finished = (outcome.ending for outcome in pair.outcomes)
    assert isinstance(failed, Failed) and failed.kind is FailureKind.CRASHED
    assert isinstance(finished, Finished) and finished.elapsed_s >= 0.6


def test_whatever_is_raised_both_are_ended(tmp_path: Path) -> None:
    trials: list[process.RunningTrial] = []

    def start(launch: Launch) -> process.RunningTrial:
        trials.append(process.start(launch))
        return trials[-1]

    def cancelled() -> bool:
        if len(trials) == 2:
            raise KeyboardInterrupt
        return False

    endless = [replace(r, cancelled=cancelled) for r in requests(tmp_path, *["sleep 60"] * 2)]
    with pytest.raises(KeyboardInterrupt):
        side_by_side.run(endless, slice_s=0.2, start=start)
    ended: list[Callable[[], process.Exit | None]] = [trial.poll for trial in trials]
    assert len(ended) == 2 and all(poll() is not None for poll in ended)


LOGS = """
import json, pathlib, sys, time
out, zero, entries = pathlib.Path(sys.argv[1]), time.monotonic(), []
for iteration in (10, 20, 30):
    done = 0
    for _ in range(2_000_000):
        done += 1
    entries.append({"iteration": iteration, "elapsed_time": time.monotonic() - zero})
    (out / "new").write_text(json.dumps(entries))
    (out / "new").rename(out / "log")
"""


@pytest.mark.parametrize("statistic", ["last", "steady"])
def test_the_time_of_a_log_is_without_the_pauses(tmp_path: Path, statistic: str) -> None:
    both = []
    for request in requests(tmp_path, "", ""):
        spec = replace(SPEC, objective=ObjectiveSpec(statistic=statistic), layout=Layout(1))
        argv = (sys.executable, "-c", LOGS, str(request.launch.out_dir))
        launch = replace(request.launch, argv=argv)
        both.append(replace(request, spec=spec, launch=launch))
    pair = side_by_side.run(both, slice_s=0.1)
    for outcome in pair.outcomes:
        assert isinstance(outcome.ending, Finished)
        last = outcome.progress[-1].elapsed_s
        assert last <= outcome.wall_s, "the program's clock went on for about twice as long"
        figure_s: float | None = last
        if statistic == "steady":
            figure_s = steady_s([(each.iteration, each.elapsed_s) for each in outcome.progress])
        assert outcome.ending.elapsed_s == pytest.approx(figure_s, rel=0.01), "of the same entries"
