"""The table of knobs, and what is said of each knob from what was seen of the ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unittest.mock import ANY

import pytest

from tests.study_samples import SPEC
from tuner import knobs
from tuner.knobs.effects import effects, shared_cpus
from tuner.model import SHARE, UNSET, Env, Observation, RankView, Setting, Value, Verdict

NUMPY = "numpy.libs/libscipy_openblas64_-1.so"
OPENCV = "opencv_python_headless.libs/libopenblasp-r0.so"
TORCH = "torch.libs/libgomp.so.1"
OMP, CV, WORKERS, CORES = "omp_threads", "opencv_threads", "iterator_workers", "cores_per_rank"

HONOURED, CAPPED, OVERRIDDEN, UNSEEN = Verdict

IGNORES = {"mapped": True, "ignores_thread_variables": True}


def test_the_rows_of_the_table_are_fit_for_options_and_placeholders() -> None:
    for row in knobs.KNOBS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name) and knobs.is_known(row.name)
        assert row.help and row.why.endswith(".") and "https://" in row.source
    libraries = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")
    route = Env(tuple(f"{name}_NUM_THREADS" for name in libraries))
    assert knobs.knob("omp_threads").route == route


def rank(number: int = 0, **seen: object) -> RankView:
    view: dict[str, object] = {"threads": 1, "children": 0, "affinity": (0, 1, 2, 3), **seen}
    return RankView(number, **view)  # type: ignore[arg-type]


def bound(*masks: tuple[int, ...]) -> tuple[RankView, ...]:
    return tuple(rank(number, affinity=mask) for number, mask in enumerate(masks))


def blas(number: int, threads: int, **seen: object) -> RankView:
    pools = ((NUMPY, threads),)
    return rank(number, blas_threads=threads, pools=pools, reported=True, **seen)


def pools(**threads: int) -> RankView:
    names = {"numpy": NUMPY, "opencv": OPENCV, "gomp": "libgomp.so.1", "torch_gomp": TORCH}
    found = tuple((names.get(name, name), number) for name, number in threads.items())
    return rank(0, blas_threads=threads["numpy"], pools=found)


@pytest.mark.parametrize(
    ("knob", "asked", "ranks", "verdict", "observed", "reason"),
    [
        (OMP, 2, (blas(0, 2), blas(1, 2)), HONOURED, 2, ""),
        (OMP, 2, (blas(0, 2), blas(1, 1)), OVERRIDDEN, 1, "rank 1"),
        (OMP, 16, (blas(0, 4),), CAPPED, 4, "no more than 4 here"),
        (OMP, 4, (blas(0, 1, affinity=(3,)),), CAPPED, 1, "bound to 1 of 4 cores"),
        # OpenCV's wheel brings a BLAS of its own, and torch does not ask NumPy's
        (OMP, 1, (pools(numpy=3, opencv=1),), OVERRIDDEN, 3, ""),
        (OMP, 1, (pools(numpy=1, gomp=4),), HONOURED, 1, "libgomp.so.1 runs 4"),
        (OMP, 2, (pools(numpy=2, torch_gomp=1, torch=1),), OVERRIDDEN, 1, ""),
        (OMP, 2, (rank(0),), UNSEEN, None, "no rank reported"),
        (OMP, 2, (rank(0, **IGNORES), rank(1, **IGNORES)), OVERRIDDEN, None, "no OpenMP"),
        (OMP, 2, (rank(0, **IGNORES), rank(1)), UNSEEN, None, "no rank reported"),
        (OMP, UNSET, (blas(0, 1),), UNSEEN, None, "left to the library"),
        (CV, 2, (rank(opencv_threads=2),), HONOURED, ANY, ""),
        (CV, 2, (rank(opencv_threads=1),), OVERRIDDEN, ANY, "the program itself"),
        (CV, 2, (rank(),), UNSEEN, ANY, "no rank reported"),
        (CV, 2, (rank(reported=True),), OVERRIDDEN, ANY, "does not load OpenCV"),
        (CV, 2, (rank(reported=True, opencv_loaded=True),), UNSEEN, ANY, "child processes"),
        (CV, 2, (rank(mapped=True),), OVERRIDDEN, ANY, "does not load OpenCV"),  # in C
        ("bind_to", "none", (rank(affinity=(0, 1, 2, 3)),), HONOURED, ANY, ""),
        ("bind_to", "core", (rank(affinity=(0,)),), HONOURED, ANY, ""),
        ("bind_to", "numa", (rank(affinity=(0, 1)),), HONOURED, ANY, "2 CPUs"),
        ("gpu_bind", "near", (rank(affinity=(2, 3)),), HONOURED, ANY, "2 CPUs"),
        ("mem_bind", "local", (rank(),), UNSEEN, None, "numa_maps"),
        (CORES, 2, bound((0, 1), (2, 3)), HONOURED, 2, ""),
        (CORES, SHARE, bound((0, 1), (2, 3)), HONOURED, 2, "2 CPUs"),  # two ranks, four cores
        (CORES, 2, bound((0, 1), (2, 3), (3, 1)), OVERRIDDEN, 2, "ranks 0 and 2 share CPU 1"),
        (CORES, 2, bound((0, 1, 2, 3)), OVERRIDDEN, 4, "4 CPUs"),
        (CORES, 2, bound((0,), (2, 3)), UNSEEN, None, "1 CPU only"),  # by OMP_PROC_BIND, perhaps
        (CORES, 2, (), UNSEEN, None, "no rank"),
        (CORES, UNSET, bound((0, 1)), UNSEEN, None, "left to the launcher"),
        ("allocator", "jemalloc", (rank(allocator="jemalloc"),), HONOURED, ANY, ""),
        ("allocator", "jemalloc", (rank(allocator="glibc"),), OVERRIDDEN, ANY, "comes from glibc"),
        # Child processes are a lower bound only.
        (WORKERS, 2, (rank(0, children=5), rank(1, children=6)), HONOURED, 5, ""),
        (WORKERS, 4, (rank(0, children=5), rank(1, children=3)), UNSEEN, 3, "3 child processes"),
        (WORKERS, 4, (), UNSEEN, ANY, ""),
    ],
)
def test_what_came_of_a_value(
    knob: str,
    asked: Value,
    ranks: tuple[RankView, ...],
    verdict: Verdict,
    observed: object,
    reason: str,
) -> None:
    (effect,) = effects(SPEC, Setting.of({knob: asked}), Observation(ranks))
    assert (effect.verdict, effect.observed) == (verdict, observed)
    assert reason in effect.reason


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        (((0,), (0,)), "ranks 0, 1 may run on CPU 0 only, and 3 of 4 CPUs have no rank"),
        (((0, 1), (0, 1), (0, 1)), "ranks 0, 1, 2 may run on CPUs 0, 1 only, and 2 of 4"),
        (((0,), (1,)), ""),
        (((0, 1, 2, 3), (0, 1, 2, 3)), ""),
        (((), ()), ""),
    ],
)
def test_ranks_that_share_a_cpu_though_others_are_free_are_named(
    masks: Sequence[tuple[int, ...]], said: str
) -> None:
    views = bound(*masks)
    text = shared_cpus(views, 4)
    assert text.startswith(said) and bool(text) == bool(said)
    pinned = shared_cpus(views, 4, [("OMP_PROC_BIND", "true"), ("HOME", "/h")])
    assert pinned == (f"{text} (OMP_PROC_BIND=true is set)" if said else "")
