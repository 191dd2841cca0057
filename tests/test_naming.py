"""The names of studies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.config.program import as_name, check_name
from tuner.model.errors import UsageError


@pytest.mark.parametrize("name", ["a", "mnist-n8", "3.x_y", "a" * 100])
def test_what_is_a_name(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".x", "-x", "_x", "a b", "a/b", "a\n", "é", "a" * 101])
def test_what_is_none_is_named_with_its_place(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_name(name, "--name")
    assert f"--name {name!r}" in caught.value.message
    assert caught.value.hint


@given(st.text(max_size=80))
def test_any_text_becomes_a_name_or_nothing(text: str) -> None:
    name = as_name(text)
    assert name == "" or check_name(name) == name
    assert as_name(name) == name
