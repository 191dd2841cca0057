"""A figure in what the program prints: which number, in which format, with which unit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.objectives import EndedLaunch, objective_for
from tuner.launch.objectives import pattern as pattern_module
from tuner.launch.objectives.number import read
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec

PERFORMANCE = r"Performance: *([-+0-9.a-zA-Z,]+)"


def result(folder: Path, text: str, pattern: str = PERFORMANCE, **more: Any) -> Finished | Failed:
    path = folder / "output.log"
    path.write_text(text)
    spec = ObjectiveSpec(kind="pattern", pattern=pattern, **more)
    return objective_for(spec).result(EndedLaunch(folder / "out", path, 9.0))


def cost(ending: Finished | Failed) -> float | str:
    return ending.elapsed_s if isinstance(ending, Finished) else ending.reason


@pytest.mark.parametrize(
    ("text", "pattern", "figure"),
    [
        ("Performance: 1\nPerformance: 2 Performance: 3\nend\n", PERFORMANCE, 3),
        ("t 5 p 6", r"t (\d) p (?P<figure>\d)", 6),
        # a line as a terminal shows it
        ("\x1b[32mPerformance: 1\x1b[1m2.5\x1b[0m\n", PERFORMANCE, 12.5),
        (" 1 %\r 99 %\rPerformance: 12.5\r\n", PERFORMANCE, 12.5),
        # a comma or a blank that the pattern names is no part of the number
        ("10,125.5", "10,([0-9.]+)", 125.5),
        ("10,125.5", "(?:10|20),([0-9.]+)", 125.5),
        ("took 12.5 s", "took (.*)", 12.5),
        ("10 125 8", "^([0-9]+) ", 10),
    ],
)
def test_the_last_match_counts(tmp_path: Path, text: str, pattern: str, figure: float) -> None:
    assert cost(result(tmp_path, text, pattern)) == figure


@pytest.mark.parametrize(
    ("line", "group", "value", "unit"),
    [
        ("T 12.5 ms per step", "12.5", 12.5, "ms/step"),
        ("[0, 12.48]", "12.48", 12.48, ""),
        ('{"time_ms": 12.5,', "12.5", 12.5, "ms"),
        ("2026-01-02 10:00:01,123 INFO 12.5", "12.5", 12.5, ""),
        ("v1.2.3 took 12.5 s", "12.5", 12.5, "s"),
        ("1,204,567.5", "1,204,567.5", 1204567.5, ""),
        ("1_204_567.5 tok/s", "1_204_567.5", 1204567.5, "tok/s"),
        ("1 204.5 ms", "1 204.5", 1204.5, "ms"),
        ("12,3.5,7.25", "7.25", 7.25, ""),
        ("1m 1.35s WALL", "1m 1.35", 61.35, "s"),
        ("real\t0m1,5s", "0m1,5s", 1.5, "s"),
        ("01:02:03.5", "01:02:03.5", 3723.5, "s"),
    ],
)
def test_a_number_of_any_format_is_read_with_its_unit(
    tmp_path: Path, line: str, group: str, value: float, unit: str
) -> None:
    ending = result(tmp_path, line, f"({re.escape(group)})")
    assert isinstance(ending, Finished) and ending.reading is not None
    assert (ending.reading.value, ending.reading.unit) == (value, unit)


@given(st.floats(0.0001, 1e9), st.sampled_from(["{:.3f}", "{:,.2f}", "{:.6e}", "{:g}"]))
def test_each_number_as_python_prints_it_is_read(value: float, form: str) -> None:
    text = form.format(value)
    assert read("took ", text, " s").value == pytest.approx(float(text.replace(",", "")))


def test_a_time_is_in_seconds_and_a_rate_is_its_reciprocal(tmp_path: Path) -> None:
    assert cost(result(tmp_path, "Performance: 250", unit="ms")) == 0.25
    rate = result(tmp_path, "Performance: 250", unit="ns/day", maximize=True)
    assert cost(rate) == 1 / 250


@pytest.mark.parametrize(
    ("text", "pattern", "kind", "said"),
    [
        ("t: 12,48 s", r"t: ([0-9.]+)", FailureKind.CUT_FIGURE, "a part of the number 12,48: t: «"),
        ("t 12,48 s", r"(?:t|u) ([0-9.]+)", FailureKind.CUT_FIGURE, "number 12,48: t «"),
        ("t 1,204 ms", r"([0-9.]+) ms", FailureKind.CUT_FIGURE, "the number 1,204: t 1,«204» ms"),
        ("all fine\n", PERFORMANCE, FailureKind.NO_LOG, "matches nothing"),
        ("Iteration 5\nThroughput : 12.5 img/s\nDone in 8 s\n", r"Throughput: ([0-9.]+)",
         FailureKind.NO_LOG, "the line that comes nearest is 'Throughput : 12.5 img/s'"),
        ("", PERFORMANCE, FailureKind.NO_LOG, "matches nothing; it is empty"),
        ("Performance: fast\n", PERFORMANCE, FailureKind.BAD_LOG, "has 'fast' in its group, which"),
        ("Performance: 0.0\n", PERFORMANCE, FailureKind.BAD_LOG, "a figure must be above 0"),
        ("P: -3", "(3)", FailureKind.BAD_LOG, "is -3.0: a figure must be above 0"),
        ("a" * 60 + "!\n", r"(a|a)+$", FailureKind.BAD_LOG, "nested repeats such as (a+)+"),
    ],
)  # fmt: skip
def test_what_gives_no_figure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    pattern: str,
    kind: FailureKind,
    said: str,
) -> None:
    monkeypatch.setattr(pattern_module, "LIMIT_S", 0.5)
    ending = result(tmp_path, text, pattern)
    assert isinstance(ending, Failed) and ending.kind is kind
    assert said in ending.reason and str(tmp_path / "output.log") in ending.reason


@pytest.mark.parametrize(
    ("line", "group", "whole"),
    [
        ("t 12.48", "48", "12.48"),
        ("t 1.20e+02 s", "1.20", "1.20e+02"),
        ("t 1 204 ms", "1", "1 204"),
        ("v 1.2.3", "1.2", "1.2.3"),
        ("0:00:55", "55", "0:00:55"),
        ("10,125.5", "125.5", "10,125.5"),
    ],
)
def test_a_part_of_a_number_is_none(tmp_path: Path, line: str, group: str, whole: str) -> None:
    ending = result(tmp_path, line, f"({re.escape(group)})")
    assert isinstance(ending, Failed) and ending.kind is FailureKind.CUT_FIGURE
    assert f"reads a part of the number {whole}: " in ending.reason


@pytest.mark.parametrize(
    "text", ["1_00", "nan", "0x1p3", "one", "1 2", "٣", "v1", "1.2.3", "$5", "12,48", "1'204"]
)
def test_what_is_no_number(tmp_path: Path, text: str) -> None:
    assert "which is not a number" in str(cost(result(tmp_path, f"<{text}>", "<(.*)>")))


def test_a_file_of_the_program_is_read_in_place_of_its_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    spec = ObjectiveSpec(kind="pattern", pattern=r"(\d+)", filename="sums.txt")
    pattern = objective_for(spec)
    assert pattern.needs_out, "the command must say where the file goes"
    ended = EndedLaunch(out, tmp_path / "output.log", 9.0)
    ending = pattern.result(ended)
    assert isinstance(ending, Failed) and ending.kind is FailureKind.NO_LOG
    assert f"no file {out / 'sums.txt'}" in ending.reason
    (out / "sums.txt").write_text("5\n")
    assert cost(pattern.result(ended)) == 5.0
