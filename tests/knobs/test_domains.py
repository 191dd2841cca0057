"""The table of knobs; domains as they are written, and as they make sense for a knob."""

from __future__ import annotations

import re

import pytest

from tuner.knobs import KNOBS, domains, is_known, knob
from tuner.model import Choice, Domain, Env, IntRange
from tuner.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("1..16", IntRange(1, 16)),
        ("1..cores", IntRange(1, "cores")),
        ("1,2,4", Choice((1, 2, 4))),
        ("4", Choice((4,))),
        ("naive , flat", Choice(("naive", "flat"))),
        ("unset,1", Choice(("unset", 1))),
        ("-2..2", IntRange(-2, 2)),
    ],
)
def test_parse_domain(text: str, domain: Domain) -> None:
    assert domains.parse_domain(text, where="--knob x") == domain


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("4..1", "reversed"),
        ("1..x", "not whole numbers"),
        ("1,,2", "empty value"),
        ("1,1", "twice"),
        ("1-16", "not a range"),
        ("1..1000000", "more than"),
    ],
)
def test_a_bad_domain_names_the_place_and_the_fix(text: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        domains.parse_domain(text, where="--knob omp_threads")
    assert "--knob omp_threads" in caught.value.message
    assert word in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("omp_threads", IntRange(0, 4)),
        ("omp_threads", Choice(("many",))),
        ("iterator_workers", Choice((-1,))),
        ("communicator", Choice(("hierarchical",))),
        ("communicator", IntRange(1, 2)),
    ],
)
def test_values_that_make_no_sense_for_a_knob(name: str, domain: Domain) -> None:
    with pytest.raises(UsageError, match="--knob"):
        domains.check_against(knob(name), domain, where=f"--knob {name}")


def test_the_rows_of_the_table_are_fit_for_options_and_placeholders() -> None:
    for row in KNOBS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name) and is_known(row.name)
        assert row.help and row.why.endswith(".") and "https://" in row.source
    libraries = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
    assert knob("omp_threads").route == Env(tuple(f"{name}_NUM_THREADS" for name in libraries))
