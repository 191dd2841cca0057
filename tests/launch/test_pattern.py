"""A figure in what the program prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.objectives import EndedLaunch, objective_for, with_argument
from tuner.launch.objectives import pattern as pattern_module
from tuner.launch.objectives.pattern import Pattern
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec
from tuner.model.errors import UsageError

PERFORMANCE = r"Performance: *([-+0-9.a-zA-Z,]+)"


def spec_of(pattern: str, **more: Any) -> ObjectiveSpec:
    return ObjectiveSpec(kind="pattern", pattern=pattern, **more)


def last(text: str, pattern: str = PERFORMANCE) -> str | None:
    match = Pattern(spec_of(pattern)).last_match(text.split("\n"))
    return None if match is None else match[1]


def result(
    folder: Path, content: bytes, pattern: str = PERFORMANCE, **more: Any
) -> Finished | Failed:
    path = folder / "output.log"
    path.write_bytes(content)
    return objective_for(spec_of(pattern, **more)).result(EndedLaunch(folder / "out", path, 9.0))


def test_the_group_of_the_last_match_counts() -> None:
    for text, pattern, found in (
        ("Performance: 1\nPerformance: 2 Performance: 3\nend\n", PERFORMANCE, "3"),
        ("nothing here\n", PERFORMANCE, None),
        ("", "(.*)", None),
        ("t 5 p 6", r"t (\d) p (?P<figure>\d)", "6"),
        ("t 5 p 6", r"t (\d) p (\d)", "5"),
        ("none", r"none|(\d)", ""),
    ):
        assert last(text, pattern) == found


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    st.lists(st.text(max_size=60), max_size=40),
)
def test_whatever_stands_around_it_the_last_one_wins(values: list[int], others: list[str]) -> None:
    noise = [each.replace("<<", "") for each in others] + [""] * len(values)
    body = "".join(f"\n<<{n}>>\n{other}" for n, other in zip(values, noise, strict=False))
    assert last(body, r"<<(\d+)>>") == str(values[-1])


def costs(ending: Finished | Failed) -> float | str:
    return ending.elapsed_s if isinstance(ending, Finished) else ending.reason


def test_a_time_is_in_seconds_and_a_rate_is_its_reciprocal(tmp_path: Path) -> None:
    content = b"\xff\xfe\0Performance: 250\0\x80\n\xff"
    assert costs(result(tmp_path, content)) == 250.0
    assert costs(result(tmp_path, content, unit="ms")) == 0.25
    assert costs(result(tmp_path, content, unit="ns/day", maximize=True)) == 1 / 250


def test_a_line_is_searched_as_a_terminal_shows_it(tmp_path: Path) -> None:
    for content in (
        b"\x1b[32mPerformance: 1\x1b[1m2.5\x1b[0m\n",
        b"\x1b]0;title\x07Performance: 12.5\n",
        b"  1 %\r 99 %\rPerformance: 12.5\r\n",
        b" 1 %\b\b\b\bPerformance: 12.5\n",
    ):
        assert costs(result(tmp_path, content)) == 12.5


def test_a_pattern_that_reads_a_part_comes_with_one_that_reads_all(tmp_path: Path) -> None:
    for pattern, line, value in (
        (r"([0-9.]+)s WALL", " PWSCF :   1m 0.10s CPU   1m 1.35s WALL", 61.35),
        (r"Laufzeit: ([0-9.]+)", "Laufzeit: 12,48 s", 12.48),
        (r"t: (?P<t>[0-9.]+)", "t: 1,204.5 img/s", 1204.5),
        (r"t: ([0-9.]+)", "t: 1'204.5 img/s", 1204.5),
        (r"([0-9]+) tok/s", "at 1_204 tok/s", 1204.0),
        (r"t: ([0-9.]+)", "t: 1 204,5 img/s", 1204.5),
        (r"t: ([0-9.]+)", "t: 1.20e+02", 120.0),
        (r"t: ([0-9]+)", "t: 12.48", 12.48),
        (r"t: .*:([0-9]+)$", "t: 0:01:25", 85.0),
        (r"t: ([0-9]+)", "t: 3m4s", 184.0),
        (r"t: ([0-9]+)", "t: 2 hours 3 minutes", 7380.0),
        (r"t: ([0-9:]+)", "t: 1 day, 0:00:55", 86455.0),
        (r"^([0-9]+)", "12.48 s", 12.48),
        (r"real\s+([0-9.]+)m", "real\t1m2.1s", 62.1),
    ):
        ending = result(tmp_path, line.encode(), pattern)
        assert isinstance(ending, Failed) and ending.kind is FailureKind.CUT_FIGURE
        assert "«" in ending.reason and "?«" not in ending.reason
        proposed = shlex.split(ending.reason.partition("reads all of it: ")[2])[0]
        spec = with_argument(ObjectiveSpec(), proposed)
        assert costs(result(tmp_path, line.encode(), spec.pattern)) == pytest.approx(value)


def test_the_nearest_line_is_shown_if_none_matches(tmp_path: Path) -> None:
    content = b"Iteration 5\nThroughput : 12.5 img/s\nDone in 8 s\n"
    said = costs(result(tmp_path, content, r"Throughput: ([0-9.]+)"))
    assert "matches nothing; the line that comes nearest is 'Throughput : 12.5 img/s'" in str(said)
    assert "matches nothing; it is empty" in str(costs(result(tmp_path, b"")))


def test_a_pattern_that_reads_the_nearest_line_is_proposed(tmp_path: Path) -> None:
    for pattern, line, value in (
        (r"([0-9.]+)it/s", "100%|##| 20/20 [00:26<00:00, 1.31s/it]", 1.31),
        (r"Throughput: ([0-9.]+)", "Throughput : 12.5 img/s (of 8)", 12.5),
        (r"time=([0-9.]+)", "Total Time: 0:01:25 for 3 runs", 85.0),
        (r"loss=([0-9.]+)", "epoch 3 loss 1.2e-3 acc 0.4", 1.2e-3),
        (r"([0-9.]+) GFLOPS", "N=4096 970 GFlops", 970.0),
        (r"Performance: ([0-9.]+)", "took 12.5 s", None),
        (r"Performance: ([0-9.]+)", "Performance: not known", None),
    ):
        said = str(costs(result(tmp_path, line.encode(), pattern)))
        proposed = said.partition("which this one reads: ")[2]
        assert bool(proposed) is (value is not None)
        if proposed:
            spec = with_argument(ObjectiveSpec(), shlex.split(proposed)[0])
            assert costs(result(tmp_path, line.encode(), spec.pattern)) == pytest.approx(value)


def test_it_is_said_that_only_the_end_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_module, "SEARCHED_BYTES", 1 << 20)
    content = b"Performance: 5\n" + b"x" * (1 << 20) + b"\nend\n"
    said = "matches nothing in the last 1 MiB, which alone are searched"
    assert said in str(costs(result(tmp_path, content)))


def test_what_gives_no_figure(tmp_path: Path) -> None:
    for content, kind, said in (
        (b"all fine\n", FailureKind.NO_LOG, "matches nothing"),
        (b"Performance: fast\n", FailureKind.BAD_LOG, "has 'fast' in its group, which is not a"),
        (b"Performance: 0.0\n", FailureKind.BAD_LOG, "is 0.0: a figure must be above 0"),
        (b"Performance: -3\n", FailureKind.BAD_LOG, "is -3.0: a figure must be above 0"),
        (b"Performance: 1e999\n", FailureKind.BAD_LOG, "beyond what is compared"),
        (b"Performance: 1e-99\n", FailureKind.BAD_LOG, "beyond what is compared"),
    ):
        ending = result(tmp_path, content)
        assert isinstance(ending, Failed)
        assert ending.kind is kind and said in ending.reason
        assert str(tmp_path / "output.log") in ending.reason, "it says where to look"


def test_a_file_of_the_program_is_read_in_place_of_its_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    pattern = objective_for(spec_of(r"(\d+)", filename="sums.txt"))
    assert pattern.needs_out, "the command must say where the file goes"
    (tmp_path / "output.log").write_text("7\n")
    ended = EndedLaunch(out, tmp_path / "output.log", 9.0)
    (out / "sums.txt").write_text("5\n")
    assert costs(pattern.result(ended)) == 5.0
    (out / "sums.txt").unlink()
    ending = pattern.result(ended)
    assert isinstance(ending, Failed) and ending.kind is FailureKind.NO_LOG
    assert f"no file {out / 'sums.txt'}" in ending.reason


def test_a_pattern_that_takes_for_ever_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_module, "LIMIT_S", 0.5)
    ending = result(tmp_path, b"a" * 60 + b"!\n", pattern=r"(a|a)+$")
    assert isinstance(ending, Failed) and ending.kind is FailureKind.BAD_LOG
    assert "nested repeats such as (a+)+" in ending.reason


def test_a_pattern_that_cannot_be_used() -> None:
    for pattern, said in (
        ("", "has no regular expression"),
        ("Performance: ([0-9.+", "is not a regular expression: "),
        ("(a){99999999999999999999}", "is not a regular expression"),
        ("(?:[0-9.]+)", "has no group for the figure"),
    ):
        with pytest.raises(UsageError) as caught:
            objective_for(spec_of(pattern))
        assert said in caught.value.message and caught.value.hint
