from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.knobs.effects import effects
from tuner.model import (
    UNSET,
    Effect,
    Env,
    IntRange,
    Knob,
    Machine,
    Observation,
    RankView,
    Setting,
    Verdict,
)

NUMPY = "numpy.libs/libscipy_openblas64_-1.so"
OPENCV = "opencv_python_headless.libs/libopenblasp-r0.so"


def machine(cores: int = 4) -> Machine:
    return Machine("host", "cpu", cores, cores, cores, None, 1, 1 << 30)


def rank(number: int = 0, **seen: object) -> RankView:
    view: dict[str, object] = {"threads": 1, "children": 0, "affinity": (0, 1, 2, 3), **seen}
    return RankView(number, **view)  # type: ignore[arg-type]


def blas(number: int, threads: int, **seen: object) -> RankView:
    pools = ((NUMPY, threads),)
    return rank(number, blas_threads=threads, pools=pools, reported=True, **seen)


def judge(knob: str, asked: int | str, *ranks: RankView, cores: int = 4) -> Effect:
    (effect,) = effects(Setting.of({knob: asked}), (), Observation(ranks), machine(cores))
    return effect


def test_threads_that_every_rank_runs_are_honoured() -> None:
    effect = judge("omp_threads", 2, blas(0, 2), blas(1, 2))
    assert (effect.verdict, effect.observed, effect.reason) == (Verdict.HONOURED, 2, "")


def test_one_rank_that_runs_another_number_is_overridden() -> None:
    effect = judge("omp_threads", 2, blas(0, 2), blas(1, 1))
    assert (effect.verdict, effect.observed) == (Verdict.OVERRIDDEN, 1)
    assert "rank 1" in effect.reason


def test_more_threads_than_cores_are_capped_at_what_runs() -> None:
    effect = judge("omp_threads", 16, blas(0, 4))
    assert (effect.verdict, effect.observed) == (Verdict.CAPPED, 4)


def test_a_bound_rank_caps_at_its_own_cpus() -> None:
    effect = judge("omp_threads", 4, blas(0, 1, affinity=(3,)))
    assert (effect.verdict, effect.observed) == (Verdict.CAPPED, 1)
    assert "bound to 1 of 4 cores" in effect.reason


def test_the_limit_a_blas_was_built_for_is_a_cap() -> None:
    view = blas(0, 64, blas_limit=64, affinity=tuple(range(128)))
    effect = judge("omp_threads", 100, view, cores=128)
    assert effect.verdict is Verdict.CAPPED
    assert "built for 64" in effect.reason


def test_more_threads_than_asked_are_overridden() -> None:
    assert judge("omp_threads", 1, blas(0, 4)).verdict is Verdict.OVERRIDDEN


def test_the_blas_inside_opencv_proves_nothing() -> None:
    view = rank(0, blas_threads=3, pools=((NUMPY, 3), (OPENCV, 1)))
    assert judge("omp_threads", 1, view).verdict is Verdict.OVERRIDDEN


def test_another_library_that_differs_is_named() -> None:
    view = rank(0, blas_threads=1, pools=((NUMPY, 1), ("libgomp.so.1", 4)))
    effect = judge("omp_threads", 1, view)
    assert effect.verdict is Verdict.HONOURED
    assert effect.reason == "libgomp.so.1 runs 4"


def test_of_a_program_with_torch_its_own_number_counts() -> None:
    """``torch.set_num_threads(1)``, and beside it a NumPy that does as it was told."""
    view = rank(0, blas_threads=2, pools=((NUMPY, 2), ("torch.libs/libgomp.so.1", 1), ("torch", 1)))
    effect = judge("omp_threads", 2, view)
    assert (effect.verdict, effect.observed) == (Verdict.OVERRIDDEN, 1)
    view = rank(0, blas_threads=1, pools=((NUMPY, 1), ("torch", 2)))
    assert judge("omp_threads", 2, view).verdict is Verdict.HONOURED


def test_without_a_report_nothing_is_claimed() -> None:
    for knob in ("omp_threads", "opencv_threads"):
        effect = judge(knob, 2, rank(0))
        assert (effect.verdict, effect.observed) == (Verdict.NOT_OBSERVABLE, None)
        assert "no rank reported" in effect.reason


def test_a_program_without_the_library_says_so() -> None:
    unused = judge("opencv_threads", 2, blas(0, 2))
    assert (unused.verdict, unused.observed) == (Verdict.OVERRIDDEN, None)
    assert "does not load OpenCV" in unused.reason
    by_workers = judge("opencv_threads", 2, blas(0, 2, opencv_loaded=True))
    assert by_workers.verdict is Verdict.NOT_OBSERVABLE
    assert "no BLAS" in judge("omp_threads", 2, rank(0, opencv_threads=2, reported=True)).reason


def test_a_rank_that_reported_nothing_but_itself_has_reported() -> None:
    """Pure Python without MPI: no pool, no OpenCV, and that is known."""
    bare = rank(0, reported=True)
    assert judge("opencv_threads", 2, bare).verdict is Verdict.OVERRIDDEN
    assert "no BLAS" in judge("omp_threads", 2, bare).reason


def test_opencv_is_judged_by_its_own_count() -> None:
    assert judge("opencv_threads", 2, rank(0, opencv_threads=2)).verdict is Verdict.HONOURED
    assert judge("opencv_threads", 2, rank(0, opencv_threads=1)).verdict is Verdict.OVERRIDDEN
    assert judge("opencv_threads", 9, rank(0, opencv_threads=4)).verdict is Verdict.CAPPED


def test_workers_are_a_lower_bound_only() -> None:
    many = judge("iterator_workers", 2, rank(0, children=5), rank(1, children=6))
    assert (many.verdict, many.observed) == (Verdict.HONOURED, 5)
    few = judge("iterator_workers", 4, rank(0, children=5), rank(1, children=3))
    assert (few.verdict, few.observed) == (Verdict.NOT_OBSERVABLE, 3)
    assert "3 child processes" in few.reason
    assert judge("iterator_workers", 4).verdict is Verdict.NOT_OBSERVABLE


def test_other_knobs_and_values_are_not_observable() -> None:
    assert judge("communicator", "naive", blas(0, 1)).verdict is Verdict.NOT_OBSERVABLE
    assert judge("omp_threads", UNSET, blas(0, 1)).reason == "left to the library"


def test_a_knob_of_another_name_is_judged_by_its_variables() -> None:
    knob = Knob("blas", IntRange(1, 4), Env(("OPENBLAS_NUM_THREADS",)))
    observation = Observation((blas(0, 3),))
    (effect,) = effects(Setting.of({"blas": 3}), (knob,), observation, machine())
    assert effect.verdict is Verdict.HONOURED


COUNTS = st.integers(1, 64)


@given(COUNTS, COUNTS, COUNTS)
def test_each_verdict_follows_from_the_two_numbers(asked: int, ran: int, cores: int) -> None:
    view = blas(0, ran, affinity=tuple(range(cores)))
    effect = judge("omp_threads", asked, view, cores=cores)
    assert effect.observed == ran
    if effect.verdict is Verdict.CAPPED:
        assert cores <= ran < asked
    assert (effect.verdict is Verdict.HONOURED) == (ran == asked)


@given(
    st.dictionaries(
        st.sampled_from(["omp_threads", "opencv_threads", "iterator_workers", "x"]),
        COUNTS | st.text(max_size=5),
    ),
    st.lists(st.tuples(COUNTS, st.none() | COUNTS), max_size=3),
)
def test_there_is_one_effect_for_each_knob_set(
    values: dict[str, int | str], seen: list[tuple[int, int | None]]
) -> None:
    ranks = tuple(blas(n, ran, opencv_threads=cv) for n, (ran, cv) in enumerate(seen))
    found = effects(Setting.of(values), (), Observation(ranks), machine())
    assert tuple((effect.knob, effect.asked) for effect in found) == Setting.of(values).items
    for effect in found:
        unused = effect.reason == "the program does not load OpenCV"
        few = "child processes" in effect.reason
        unseen = effect.verdict is Verdict.NOT_OBSERVABLE and not few
        assert (effect.observed is None) == (unseen or unused)
