"""The table of knobs."""

from __future__ import annotations

import re

import pytest

from tuner.knobs import KNOBS, is_known, knob, names
from tuner.model import Env


def test_omp_threads_sets_every_thread_library() -> None:
    assert knob("omp_threads").route == Env(
        (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "BLIS_NUM_THREADS",
            "NUMEXPR_NUM_THREADS",
        )
    )


@pytest.mark.parametrize("row", KNOBS, ids=names())
def test_a_row_is_fit_for_options_and_placeholders(row: object) -> None:
    name = getattr(row, "name", "")
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert getattr(row, "help", "")
    assert getattr(row, "why", "").endswith(".")
    assert "https://" in getattr(row, "source", "")
    assert is_known(name)
