from __future__ import annotations

import re

from tuner.knobs import KNOBS, is_known, knob
from tuner.model import Env


def test_the_rows_of_the_table_are_fit_for_options_and_placeholders() -> None:
    for row in KNOBS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name) and is_known(row.name)
        assert row.help and row.why.endswith(".") and "https://" in row.source
    libraries = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
    assert knob("omp_threads").route == Env(tuple(f"{name}_NUM_THREADS" for name in libraries))
