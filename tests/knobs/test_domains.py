"""The table of knobs, and domains as they are written."""

from __future__ import annotations

import re

import pytest

from tuner.knobs import KNOBS, domains, is_known, knob
from tuner.model import Choice, Domain, Env, IntRange


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


def test_the_rows_of_the_table_are_fit_for_options_and_placeholders() -> None:
    for row in KNOBS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name) and is_known(row.name)
        assert row.help and row.why.endswith(".") and "https://" in row.source
    libraries = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
    assert knob("omp_threads").route == Env(tuple(f"{name}_NUM_THREADS" for name in libraries))
