"""Placeholders of command templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.launch import command
from tuner.model.errors import UsageError


def test_a_stray_brace_is_told_with_the_way_to_write_one() -> None:
    for token in ("{", "}", "{}", "{a b}", '{"a":1}', "{1}", "{{{", "x}y"):
        with pytest.raises(UsageError) as caught:
            command.names_in(token)
        assert repr(token) in caught.value.message
        assert "{{" in caught.value.hint


@given(st.text())
def test_doubled_braces_are_any_text(text: str) -> None:
    token = text.replace("{", "{{").replace("}", "}}")
    assert command.substitute([token], {}) == (text,)


def test_an_unknown_placeholder_names_the_nearest_and_the_way_to_make_one() -> None:
    with pytest.raises(UsageError) as caught:
        command.check(["x", "{iterator_worker}"], ["iterator_workers"])
    assert "{iterator_worker}" in caught.value.message
    assert "'iterator_workers'" in caught.value.hint
    assert "--knob iterator_worker=1..8" in caught.value.hint


VALUES = {"out": "o", "n": "2"}


def test_substitute_leaves_out_what_is_not_set() -> None:
    for template, filled in (
        (("p", "-j", "{n}", "{out}"), ("p", "-j", "2", "o")),
        (("p", "-j", "{gone}", "x"), ("p", "x")),
        (("p", "--jobs", "{gone}"), ("p",)),
        (("p", "--jobs={gone}", "x"), ("p", "x")),
        (("p", "-j{gone}", "x"), ("p", "x")),
        (("p", "--quiet", "--jobs={gone}"), ("p", "--quiet")),
        (("p", "data.jobs={gone}", "x"), ("p", "x")),
        (("p", "-a", "{gone}", "-b", "{lost}"), ("p",)),
        (("p", "{n}-{gone}"), ("p",)),
        (("p", "{{x}}"), ("p", "{x}")),
        (("p", "--text=two {gone}", "x"), ("p", "x")),
        (("bash", "-c", './p "$@"', "p", "-j", "{gone}"), ("bash", "-c", './p "$@"', "p")),
        (("p", "-c", "{gone}"), ("p",)),
        (("-c", "{gone}"), ()),
        (("bash", "-c", "exec ./p {n} {out}"), ("bash", "-c", "exec ./p 2 o")),
    ):
        assert command.substitute(template, VALUES) == filled


def test_a_placeholder_alone_or_in_a_script_needs_a_default() -> None:
    for template in (
        ("bash", "-c", "exec ./p {out} {gone}"),
        ("bash", "-c", "JOBS={gone} exec ./p"),
        ("bash", "-c", "exec\t./p\n--jobs={gone}"),
        ("p", "--flags", "-a -j{gone}"),
        *[("p", "{gone}"), ("p", "--", "{gone}"), ("p", "-", "{gone}"), ("p", "-1", "{gone}")],
        *[("p", "--a=b", "{gone}"), ("{gone}",)],
    ):
        with pytest.raises(UsageError) as caught:
            command.substitute(template, VALUES)
        assert "{gone}" in caught.value.message
        assert "--baseline gone=VALUE" in caught.value.hint
        filled = command.substitute(template, {**VALUES, "gone": "1"})
        assert len(filled) == len(template)


def test_a_script_is_told_in_short_with_every_default_it_needs() -> None:
    with pytest.raises(UsageError) as caught:
        command.substitute(("sh", "-c", "p {gone} {lost} {gone}" + " x" * 100), VALUES)
    assert "'p {gone}" in caught.value.message
    assert len(caught.value.message) < 160
    assert "--baseline gone=VALUE --baseline lost=VALUE" in caught.value.hint


@given(st.lists(st.sampled_from(["p", "-j", "{n}", "{gone}", "--x={gone}", "--y={n}"])))
def test_nothing_unset_is_left_and_what_is_set_is_kept(template: list[str]) -> None:
    try:
        filled = command.substitute(template, VALUES)
    except UsageError:
        return
    assert not any("{" in token for token in filled)
    assert filled.count("2") == template.count("{n}")
    assert filled.count("p") == template.count("p")
