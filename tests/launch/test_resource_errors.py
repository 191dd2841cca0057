from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.launch.resource_errors import LAST_WORDS, in_exceptions, in_last_words, in_lines
from tuner.model import FailureKind

LINES = st.lists(st.text(st.characters(exclude_characters="\n")), max_size=10)


def test_the_last_exception_that_tells_counts() -> None:
    said = [("", "MemoryError"), ("", "RuntimeError: can't start new thread"), ("", "ValueError")]
    found = in_exceptions(said)
    assert found is not None and found[0] is FailureKind.THREADS
    assert in_exceptions(said[2:]) is None


def test_last_words_are_near_the_end() -> None:
    said = ["mmap: Out of memory", *LAST_WORDS * ["step"]]
    assert in_last_words(said) is None
    found = in_last_words(said[:-1])
    assert found is not None and found[0] is FailureKind.OUT_OF_MEMORY


def test_a_form_counts_wherever_it_stands() -> None:
    found = in_lines(["libgomp: Out of memory allocating 8 bytes", *100 * ["step"]], [])
    assert found is not None and found[0] is FailureKind.OUT_OF_MEMORY


@given(LINES, LINES)
def test_any_lines_are_read(own: list[str], launcher: list[str]) -> None:
    for found in (
        in_lines(own, launcher),
        in_last_words(own),
        in_exceptions([("", x) for x in own]),
    ):
        assert found is None or found[2] in (*own, *launcher)
