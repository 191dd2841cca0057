"""The table of knobs."""

from __future__ import annotations

import re

import pytest

from tuner.knobs import KNOBS, is_known, knob, names
from tuner.model import Choice, Env, Flag, IntRange
from tuner.model.errors import UsageError


def test_the_first_knobs_in_order() -> None:
    """The search draws by their order: another one would make other choices for the same seed."""
    first = ("omp_threads", "opencv_threads", "iterator_workers", "communicator")
    assert tuple(name for name in names() if name in first) == first


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


def test_opencv_has_its_own_variable() -> None:
    assert knob("opencv_threads").route == Env(("OPENCV_FOR_THREADS_NUM",))


def test_counts_go_from_one_to_the_usable_cores() -> None:
    for name in ("omp_threads", "opencv_threads", "iterator_workers"):
        assert knob(name).domain == IntRange(1, "cores")


def test_the_trainer_has_no_common_option_for_workers_or_communicator() -> None:
    assert knob("iterator_workers").route == Flag()
    assert knob("communicator").route == Flag()


def test_every_communicator_but_naive_needs_a_gpu() -> None:
    row = knob("communicator")
    assert isinstance(row.domain, Choice)
    assert set(row.domain.values) - set(row.gpu_values) == {"naive"}


@pytest.mark.parametrize("row", KNOBS, ids=names())
def test_a_row_is_fit_for_options_and_placeholders(row: object) -> None:
    name = getattr(row, "name", "")
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert getattr(row, "help", "")
    assert getattr(row, "why", "").endswith(".")
    assert "https://" in getattr(row, "source", "")
    assert is_known(name)


def test_an_unknown_knob_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        knob("omp_thread")
    assert "'omp_thread'" in caught.value.message
    assert "'omp_threads'" in caught.value.hint


def test_an_unknown_knob_like_none_lists_all() -> None:
    with pytest.raises(UsageError) as caught:
        knob("zzz")
    for name in names():
        assert name in caught.value.hint
