"""Placeholders of command templates."""

from __future__ import annotations

import pytest

from tuner.launch import command
from tuner.model.errors import UsageError


@pytest.mark.parametrize(
    "token", ["{", "}", "{}", "{a b}", '{"a":1}', "{1}", "{{{", "x}y", "{a!r}"]
)
def test_a_stray_brace_is_told_with_the_way_to_write_one(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        command.names_in(token)
    assert repr(token) in caught.value.message and "{{" in caught.value.hint


def test_knobs_are_seen_among_doubled_and_other_braces() -> None:
    template = ('{{"a":{a}}}', "{{b}}", "{print} {", "{c} {out} {a}")
    assert command.knobs_in(template) == ("a", "print", "c")


VALUES = {"out": "o", "n": "2"}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        (("p", "-j", "{n}", "{out}"), ("p", "-j", "2", "o")),
        (("p", "-j", "{gone}", "x"), ("p", "x")),
        (("p", "--jobs={gone}", "-j{gone}", "x"), ("p", "x")),
        (("p", "--quiet", "--jobs={gone}"), ("p", "--quiet")),
        (("p", "{{x}}", "--text=two {gone}"), ("p", "{x}")),
        (("bash", "-c", './p "$@"', "p", "-j", "{gone}"), ("bash", "-c", './p "$@"', "p")),
        (("bash", "-c", "exec ./p {n} {out}"), ("bash", "-c", "exec ./p 2 o")),
    ],
)
def test_substitute_leaves_out_what_is_not_set(
    template: tuple[str, ...], filled: tuple[str, ...]
) -> None:
    assert command.substitute(template, VALUES) == filled


@pytest.mark.parametrize(
    "template",
    [
        ("bash", "-c", "exec ./p {out} {gone}" + " x" * 100),
        ("p", "--flags", "-a -j{gone}"),
        ("p", "{gone}"),
        ("p", "--a=b", "{gone}"),
    ],
)
def test_a_placeholder_alone_or_in_a_script_needs_a_default(template: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        command.substitute(template, VALUES)
    assert "{gone}" in caught.value.message and len(caught.value.message) < 160
    assert "--baseline gone=VALUE" in caught.value.hint
    assert len(command.substitute(template, {**VALUES, "gone": "1"})) == len(template)
