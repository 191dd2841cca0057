"""Surfaces: how they are read, and how a study on one goes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces import document, write
from tuner import replay
from tuner.errors import UsageError
from tuner.racing import GoOn, Stop
from tuner.replay.machine import ENTRIES, STOP_S, VirtualMachine
from tuner.search import Options, Search

Change = Callable[[dict[str, Any]], object]


def surface(tmp_path: Path, **made: Any) -> replay.Surface:
    return replay.load(write(tmp_path / "bowl.json", document(**made)))


def play(loaded: replay.Surface, seed: int = 0, **options: Any) -> replay.Study:
    return replay.play(loaded, Search(replay.space(loaded), Options(**options), seed), seed)


def test_a_surface_is_read(tmp_path: Path) -> None:
    loaded = surface(tmp_path, failing=8)
    assert (loaded.name, loaded.ranks, loaded.cores, loaded.iterations) == ("bowl", 2, 8, 100)
    assert loaded.default == (8, 4)
    assert loaded.best == (2, 2)
    assert loaded.points[(8, 1)].reason == "out of memory"
    assert loaded.regret((2, 2)) == 0
    assert loaded.regret((4, 2)) == pytest.approx(math.exp(0.5) - 1)
    assert math.isinf(loaded.regret((8, 1)))
    assert 12.5 < loaded.unit_s < 13.7


def test_columns_may_stand_in_another_order(tmp_path: Path) -> None:
    made = document()
    made["run_columns"] = made["run_columns"][::-1]
    for point in made["points"]:
        point["runs"] = [row[::-1] for row in point["runs"]]
    turned = replay.load(write(tmp_path / "turned.json", made))
    assert turned.points == surface(tmp_path).points


def first(made: dict[str, Any]) -> Any:
    return made["points"][0]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.pop("ranks"), "ranks is missing"),
        (lambda d: d.update(ranks=0), "ranks: must be a whole number above 0, not 0"),
        (lambda d: d.update(iterations=1.5), "iterations: must be a whole number"),
        (lambda d: d.update(machine={}), "machine: physical_cores is missing"),
        (lambda d: d.update(name=""), "name: must be a text"),
        (lambda d: d.update(knobs={}), "knobs: is empty"),
        (lambda d: d["knobs"].update(omp_threads=[1, 1]), "knobs.omp_threads: names a value twice"),
        (lambda d: d["knobs"].update(omp_threads=[]), "knobs.omp_threads: must be a list"),
        (lambda d: d["knobs"].update(omp_threads=[1.5]), "knobs.omp_threads[0]: must be a whole"),
        (lambda d: d["default"].update(omp_threads=5), "default.omp_threads: 5 is not among"),
        (lambda d: d["default"].pop("omp_threads"), "default: omp_threads is missing"),
        (lambda d: d.update(points=[]), "points: must be a list with something in it"),
        (lambda d: d["points"].pop(), "points: 11 of the 12 settings"),
        (lambda d: d["points"].append(first(d)), "points[12].setting: is the setting of an"),
        (lambda d: first(d)["setting"].update(threads=1), "points[0].setting.threads: is no knob"),
        (lambda d: first(d).update(runs=[]), "points[0].runs: must be a list"),
        (lambda d: first(d)["runs"].append([1, 2]), "points[0].runs[8]: has 2 numbers, not 3"),
        (lambda d: first(d)["runs"].append([1, 0, -2]), "points[0].runs[8] (elapsed_s): must be"),
        (lambda d: first(d)["runs"].append([1, 0, "2"]), "points[0].runs[8] (elapsed_s): must be"),
        (lambda d: first(d)["runs"].append([1, 3, 2]), "points[0].runs[8]: its first iteration"),
        (lambda d: first(d).update(truth_s=math.nan), "points[0].truth_s: must be seconds"),
        (lambda d: first(d).update(failed=True), "points[0]: fail_after_s is missing"),
        (lambda d: d.update(run_columns=["elapsed_s"]), "run_columns: must be startup_s"),
        (
            lambda d: [p.update(failed=True, fail_after_s=1.0) for p in d["points"]],
            "points: every point fails",
        ),
    ],
)
def test_each_mistake_is_one_error_that_names_the_place(
    tmp_path: Path, change: Change, place: str
) -> None:
    made = document()
    change(made)
    with pytest.raises(UsageError) as caught:
        replay.load(write(tmp_path / "wrong.json", made))
    assert place in caught.value.message
    assert "wrong.json" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"text"'])
def test_what_is_no_surface_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.json").write_text(text)
    with pytest.raises(UsageError, match=r"wrong\.json"):
        replay.load(tmp_path / "wrong.json")


def test_a_missing_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        replay.load(tmp_path / "none.json")


def test_a_launch_takes_its_start_up_and_its_run(tmp_path: Path) -> None:
    machine = VirtualMachine(surface(tmp_path), seed=1)
    played = machine.launch((2, 2), None)
    assert played.startup_s is not None
    assert played.elapsed_s is not None
    assert played.wall_s == machine.clock_s == played.startup_s + played.elapsed_s
    assert len(played.progress) == ENTRIES
    assert played.progress[-1][0] == 100
    assert played.progress[-1][1] == pytest.approx(played.elapsed_s)


def test_a_running_launch_shows_only_what_its_log_would(tmp_path: Path) -> None:
    machine = VirtualMachine(surface(tmp_path), seed=1)
    shown: list[tuple[int, float, float | None]] = []

    def judge(log: list[tuple[int, float]], since_s: float, startup_s: float | None) -> GoOn | Stop:
        shown.append((len(log), since_s, startup_s))
        if len(log) < 3:
            return GoOn()
        return Stop(1.0, 20.0, (10.0, 30.0), 0.1, "drift")

    played = machine.launch((2, 2), judge)
    assert [entries for entries, _, startup_s in shown if startup_s is None] == [0] * 7
    times = [since_s for _, since_s, _ in shown]
    assert times == sorted(set(times))
    assert played.ending == "killed"
    assert played.elapsed_s is None
    assert machine.clock_s == played.wall_s == shown[-1][1] + STOP_S


def test_a_failing_launch_takes_until_it_fails(tmp_path: Path) -> None:
    machine = VirtualMachine(surface(tmp_path, failing=8), seed=1)
    played = machine.launch((8, 1), None)
    assert (played.ending, played.wall_s, played.reason) == ("failed", 2.0, "out of memory")


def test_a_study_finds_and_proves_the_best(tmp_path: Path) -> None:
    loaded = surface(tmp_path)
    study = play(loaded)
    assert study.best == study.export == (2, 2)
    assert (study.verdict, study.reference) == ("faster", loaded.default)
    assert study.finding is not None
    assert study.finding.low <= math.exp(1.5 * 2) / math.exp(0)
    assert study.ended in ("converged", "exhausted")


def test_a_moderate_gain_gets_an_interval(tmp_path: Path) -> None:
    loaded = surface(tmp_path, slope=0.2)
    study = play(loaded)
    truth = math.exp(0.2 * 3)
    assert study.finding is not None
    assert study.finding.low <= truth <= study.finding.high
    assert study.verdict == "faster"


def test_without_a_gain_the_defaults_are_kept(tmp_path: Path) -> None:
    loaded = surface(tmp_path, slope=0.0)
    study = play(loaded)
    assert study.verdict == "no significant gain"
    assert study.export == loaded.default


def test_where_the_defaults_fail_the_first_guess_is_compared(tmp_path: Path) -> None:
    study = play(surface(tmp_path, failing=8, slope=0.2))
    assert study.verdict == "baseline fails"
    assert study.failure == "out of memory"
    assert study.reference == (4, 4)
    assert study.finding is not None
    assert study.export == study.best == (2, 2)


def test_the_same_seed_replays_the_same(tmp_path: Path) -> None:
    loaded = surface(tmp_path)
    once, again = play(loaded, seed=2), play(loaded, seed=2)
    assert once == again
    assert play(loaded, seed=3) != once


def test_trials_and_budget_end_it(tmp_path: Path) -> None:
    loaded = surface(tmp_path, slope=0.05)
    few = play(loaded, trials=4)
    assert few.ended == "trials"
    assert len({s.setting for s in few.steps if s.ending and s.purpose != "baseline"}) <= 4
    assert play(loaded, budget_s=40.0).ended == "budget"


def test_the_trace_has_a_line_a_launch_and_a_last_one(tmp_path: Path) -> None:
    loaded = surface(tmp_path, failing=8)
    study = play(loaded)
    rows = [json.loads(line) for line in replay.trace.lines(loaded, study)]
    launches, last = rows[:-1], rows[-1]
    search = [row for row in launches if "outcome" in row]
    confirmation = launches[len(search) :]
    common = ["t_s", "setting"], ["elapsed_s", "incumbent"]
    assert all(list(row) == [*common[0], "outcome", *common[1]] for row in search)
    assert all(list(row) == [*common[0], "phase", *common[1]] for row in confirmation)
    assert {row["phase"] for row in confirmation} == {"confirm"}
    assert {row["outcome"] for row in search} == {"finished", "killed", "failed"}
    assert all(row["elapsed_s"] is None for row in search if row["outcome"] == "failed")
    clocks = [row["t_s"] for row in rows]
    assert clocks == sorted(clocks)
    assert list(last) == ["t_s", "best", "export", "ratio", "interval", "verdict"]
    assert last["best"] == {"omp_threads": 2, "iterator_workers": 2}
    assert last["verdict"] == "baseline fails"
