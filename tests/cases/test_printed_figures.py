"""What programs print and log, and which figures are believed of it.

Each row is two settings of a study: what a launch of each printed. They are modelled on reports of
people who compared figures that were none.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import BEST, SPEC, record
from tuner.launch.objectives import EndedLaunch, objective_for
from tuner.model import BASELINE, Failed, FailureKind, ObjectiveSpec, Outcome, Purpose, Setting
from tuner.model.errors import UsageError
from tuner.study import believed_figures
from tuner.study.history import History


def study(folder: Path, objective: ObjectiveSpec, *launches: tuple[Setting, str, float]) -> History:
    """A study after these launches: their settings, what each printed, how long each took."""
    history = History.judged(replace(SPEC, objective=objective), ())
    for number, (setting, printed, wall_s) in enumerate(launches, start=1):
        output, out_dir = folder / f"{number}.log", folder / f"out{number}"
        output.write_text(printed)
        out_dir.mkdir()
        (out_dir / "log").write_text(printed)
        reader = objective_for(objective)
        progress = tuple(replace(entry, seen_s=wall_s - 0.01) for entry in reader.progress(out_dir))
        ending = reader.result(EndedLaunch(out_dir, output, wall_s))
        purpose = Purpose.BASELINE if setting == BASELINE else Purpose.SEARCH
        outcome = Outcome(ending, wall_s, 0, progress)
        history = history.add(record(number, setting, purpose, outcome))
    return history


def printed(folder: Path, pattern: str, *lines: str, **objective: Any) -> History:
    """A study whose launches printed one line each, the defaults the first."""
    spec = ObjectiveSpec(kind="pattern", pattern=pattern, **objective)
    settings = [BASELINE, *[BEST] * (len(lines) - 1)]
    return study(folder, spec, *[(s, line, 100.0) for s, line in zip(settings, lines, strict=True)])


DOUBTED = FailureKind.DOUBTED_FIGURE
RATE = {"unit": "it/s", "maximize": True}


@pytest.mark.parametrize(
    ("pattern", "lines", "objective", "figures"),
    [
        # Keras turns to whole seconds, tqdm to seconds an iteration.
        (r"([0-9.]+)m?s/step", ["1s 54ms/step", "5s 1s/step"], {}, [54, 1000]),
        (r"([0-9.]+)", ["540µs/step", "1ms/step"], {}, [540, 1000]),
        (r"([0-9.]+)(?:it/s|s/it)", ["1.25s/it]", "1.20it/s]"], RATE, [0.8, 1.2]),
        (r": ([0-9.]+)", ["time (ms): 54", "time (s): 1"], {}, [54, 1000]),
        (r"t: ([0-9.]+)", ["t: 58s", "t: 2m"], {"unit": "s"}, [58, DOUBTED]),
        (r"([0-9.]+) .B/s", ["940 MB/s", "1.2 GB/s"], {"maximize": True}, [940, DOUBTED]),
        (r"([0-9.]+)", ["980 img/s", "1.2k img/s"], {"maximize": True}, [980, DOUBTED]),
        # With a unit that was asked for, other words beside the number are none.
        (r"t=([0-9.]+)", ["t=12.5", "t=10.5 best"], {"unit": "s"}, [12.5, 10.5]),
        (r"t: ([0-9:]+)", ["t: 0:00:55", "t: 1:02:03"], {"unit": "min"}, [55 / 60, 62.05]),
    ],
)  # fmt: skip
def test_what_is_printed(
    tmp_path: Path, pattern: str, lines: list[str], objective: dict[str, Any], figures: list[Any]
) -> None:
    history = printed(tmp_path, pattern, *lines, **objective)
    assert [
        outcome.ending.kind
        if isinstance(outcome.ending, Failed)
        else pytest.approx(history.spec.objective.figure(outcome.samples[0].elapsed_s))
        for outcome in (record.outcome for record in history.records)
    ] == figures


@pytest.mark.parametrize(
    ("pattern", "lines", "objective", "said"),
    [
        (r"([0-9.]+)", ["12 s", "9 s"], {"maximize": True}, "more counts as better"),
        (r"([0-9.]+)", ["300 s", "200 s"], {"unit": "s"}, "300 s, but the launch took 100 s"),
        (r"([0-9.]+)", ["30 s", "20 s"], {"unit": "s"}, ""),
    ],
)
def test_what_is_said_of_figures_once(
    tmp_path: Path, pattern: str, lines: list[str], objective: dict[str, Any], said: str
) -> None:
    history = printed(tmp_path, pattern, *lines, **objective)
    notes = believed_figures.notes(history.records, history.spec.objective)
    assert [said in note for note in notes] == ([True] if said else [])


@pytest.mark.parametrize(
    ("line", "objective", "is_refused"),
    [
        ("1.95it/s", {}, True),
        ("970 GFLOPS", {}, True),
        ("1.95it/s", {"maximize": True}, False),
        ("1.95it/s", {"unit": "s/it"}, False),
        ("1.95s/it", {}, False),
    ],
)
def test_the_lowest_rate_is_no_aim(
    line: str, objective: dict[str, Any], is_refused: bool, tmp_path: Path
) -> None:
    history = printed(tmp_path, "([0-9.]+)", line, **objective)
    try:
        believed_figures.check_direction(history.records, history.spec.objective)
    except UsageError as error:
        assert is_refused and error.hint.startswith("add --maximize")
        assert "launch 1 is a rate, but the lowest would count as the best: «" in error.message
    else:
        assert not is_refused


@pytest.mark.parametrize("objective", [ObjectiveSpec(), ObjectiveSpec(statistic="steady")])
def test_a_clock_of_an_earlier_run_is_refused(objective: ObjectiveSpec, tmp_path: Path) -> None:
    log = [{"iteration": 500 + n, "elapsed_time": 3600.0 + 4.5 * n} for n in range(1, 5)]
    history = study(tmp_path, objective, (BASELINE, json.dumps(log), 20.0))
    ending = history.records[0].outcome.ending
    assert isinstance(ending, Failed) and ending.kind is DOUBTED
    assert ending.reason.startswith("a resumed log: its clock ends at 3618 s, but the launch took")
