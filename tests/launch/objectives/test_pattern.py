from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.objectives import EndedLaunch, objective_for
from tuner.launch.objectives import pattern as pattern_module
from tuner.launch.objectives.pattern import (
    BLOCK,
    LONGEST,
    LONGEST_LINE,
    Match,
    compiled,
    group_of,
    last_match,
    lines_from_the_end,
    number,
)
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec
from tuner.model.errors import UsageError

PERFORMANCE = r"Performance: *([-+0-9.a-zA-Z,]+)"


def found(content: bytes, pattern: str = PERFORMANCE) -> Match | None:
    return last_match(io.BytesIO(content), regex.compile(pattern), 60.0)


def text(content: bytes, pattern: str = PERFORMANCE) -> str | None:
    match = found(content, pattern)
    assert match is not None
    return match.text


def result(folder: Path, content: bytes, **asked: object) -> Finished | Failed:
    path = folder / "output.log"
    path.write_bytes(content)
    spec = ObjectiveSpec(kind="pattern", **{"pattern": PERFORMANCE, **asked})  # type: ignore[arg-type]
    return objective_for(spec).result(EndedLaunch(folder / "out", path, 9.0))


# --- the last match ------------------------------------------------------------------------


def test_the_last_match_of_the_last_line_counts() -> None:
    assert text(b"Performance: 1\nPerformance: 2 Performance: 3\nend\n") == "3"
    assert found(b"nothing here\n") is None and found(b"") is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"Performance: 7", "7"),
        (b"  1 %\r 99 %\rPerformance: 8\r\n", "8"),
        (b"\xff\xfe\0Performance: 9\0\x80\n\xff", "9"),
        (b"Performance: 1\n" + b"x" * (3 * BLOCK) + b"\n", "1"),
        (b"x" * (BLOCK - 5) + b"\nPerformance: 2\n" + b"y" * (BLOCK - 20), "2"),
        (b"z" * (5 * LONGEST_LINE) + b" Performance: 3", "3"),
    ],
)
def test_whatever_the_output_is(content: bytes, expected: str) -> None:
    assert text(content) == expected


def test_a_group_with_a_name_goes_before_the_first() -> None:
    assert group_of(regex.compile(r"(a)(?P<figure>b)(?P<other>c)")) == 2
    assert text(b"t 5 p 6", r"t (\d) p (?P<figure>\d)") == "6"
    assert text(b"t 5 p 6", r"t (\d) p (\d)") == "5"


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    st.lists(st.binary(max_size=60), max_size=40),
)
def test_whatever_stands_around_it_the_last_one_wins(
    values: list[int], others: list[bytes]
) -> None:
    lines = [b"\n<<%d>>\n" % value for value in values]
    noise = [each.replace(b"<<", b"") for each in others]
    body = b"".join(a + b for a, b in zip(lines, [*noise, *[b""] * len(lines)], strict=False))
    assert text(body, r"<<(\d+)>>") == str(values[-1])


@given(st.binary(max_size=300), st.integers(1, 20), st.integers(1, 30))
def test_the_lines_from_the_end_are_the_lines(content: bytes, block: int, longest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_module, "BLOCK", block)
        patch.setattr(pattern_module, "LONGEST_LINE", longest)
        lines = list(lines_from_the_end(io.BytesIO(content)))
    text = content.decode("utf-8", "replace")
    if not any(byte >= 0x80 for byte in content):  # a letter may lie on a cut
        assert "".join(reversed(lines)) == re.sub(r"[\r\n]", "", text)
    assert all(0 < len(line) <= max(block + longest, longest) for line in lines)
    if longest >= 300:
        assert lines[::-1] == [line for line in re.split(r"[\r\n]+", text) if line]


# --- from the output to a figure -------------------------------------------------------------


def test_a_time_is_in_seconds_and_a_rate_is_its_reciprocal(tmp_path: Path) -> None:
    content = b"Performance: 250\n"
    assert result(tmp_path, content) == Finished(250.0, 0)
    assert result(tmp_path, content, unit="ms") == Finished(0.25, 0)
    assert result(tmp_path, content, unit="ns/day", maximize=True) == Finished(1 / 250, 0)


@pytest.mark.parametrize(
    ("written", "value"),
    [("1", 1.0), ("+.5", 0.5), ("1.5e-3", 0.0015), ("1.5D+02", 150.0), (" 12. ", 12.0)],
)
def test_numbers_as_programs_print_them(written: str, value: float) -> None:
    assert number(written) == value


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"all fine\n", FailureKind.NO_LOG, "matches nothing in"),
        (b"", FailureKind.NO_LOG, "matches nothing in"),
        (b"Performance: fast\n", FailureKind.BAD_LOG, "has 'fast' in its group, which is not a"),
        (b"Performance: nan\n", FailureKind.BAD_LOG, "which is not a number"),
        (b"Performance: 1,234\n", FailureKind.BAD_LOG, "which is not a number"),
        (b"Performance: 0.0\n", FailureKind.BAD_LOG, "is 0.0: a figure must be above 0"),
        (b"Performance: -3\n", FailureKind.BAD_LOG, "is -3.0: a figure must be above 0"),
        (b"Performance: 1e999\n", FailureKind.BAD_LOG, "beyond what is compared"),
        (b"Performance: 1e-99\n", FailureKind.BAD_LOG, "beyond what is compared"),
    ],
)
def test_what_gives_no_figure(content: bytes, kind: FailureKind, said: str, tmp_path: Path) -> None:
    ending = result(tmp_path, content)
    assert isinstance(ending, Failed)
    assert ending.kind is kind and said in ending.reason
    assert str(tmp_path / "output.log") in ending.reason, "it says where to look"


def test_a_file_of_the_program_is_read_in_place_of_its_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    pattern = objective_for(ObjectiveSpec(kind="pattern", pattern=r"(\d+)", filename="sums.txt"))
    assert pattern.needs_out, "the command must say where the file goes"
    (tmp_path / "output.log").write_text("7\n")
    ended = EndedLaunch(out, tmp_path / "output.log", 9.0)
    (out / "sums.txt").write_text("5\n")
    assert pattern.result(ended) == Finished(5.0, 0)
    pattern.prepare(out)
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


# --- what is asked for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "has no regular expression"),
        ("Performance: ([0-9.+", "is no regular expression: "),
        ("Performance: [0-9.]+", "has no group for the figure"),
        ("(?:[0-9.]+)", "has no group for the figure"),
        ("(a){99999999999999999999}", "is no regular expression"),
        ("(" * 400 + ")" * 400, "is no regular expression"),
        ("(.)" * LONGEST, "is too long"),
        ("(\0)", "too long or has a NUL"),
    ],
)
def test_a_pattern_that_cannot_be_used(pattern: str, said: str) -> None:
    try:
        compiled(pattern)
    except UsageError as error:
        assert said in error.message and error.hint
    else:
        assert pattern.startswith("((("), "what Python can compile may be used"
