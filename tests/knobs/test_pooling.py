"""Which settings come to the same: laws and contradictions."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study_samples import stopped
from tests.study_surface import CRASH, record
from tests.study_surface import SPEC as SURFACE
from tuner.knobs.pooling import Pooling
from tuner.model import (
    Choice,
    Effect,
    Ending,
    Env,
    Finished,
    Flag,
    IntRange,
    Knob,
    LauncherOption,
    Machine,
    Outcome,
    Progress,
    Purpose,
    Setting,
    Verdict,
)

OMP = Knob("omp", IntRange(1, 16), Env(("OMP_NUM_THREADS",)))
WORKERS = Knob("workers", IntRange(1, 4), Flag("-j"))
SPEC = replace(
    SURFACE, machine=Machine("host", "cpu", 2, 2, 2, None, 1, 2**30), knobs=(OMP, WORKERS)
)


def honoured(asked: int) -> Effect:
    return Effect("omp", asked, asked, Verdict.HONOURED)


def capped(asked: int, observed: int) -> Effect:
    return Effect("omp", asked, observed, Verdict.CAPPED)


def overridden(asked: int, observed: int | None, reason: str = "") -> Effect:
    return Effect("omp", asked, observed, Verdict.OVERRIDDEN, reason)


UNSEEN = Effect("omp", 8, None, Verdict.NOT_OBSERVABLE)


def pooled(*effects: Effect, knobs: tuple[Knob, ...] = SPEC.knobs) -> Pooling:
    outcome = Outcome(Finished(1.0, 10), 2.0, 0, effects=effects)
    made = record(1, Setting(), Purpose.SEARCH, outcome)
    return Pooling.from_records(replace(SPEC, knobs=knobs), [made])


def test_a_cap_below_an_honoured_value_or_of_one_binding_is_not_believed() -> None:
    assert pooled(capped(8, 3), honoured(4)).caps == {}
    bind = Knob("bind", Choice(("none", "core")), LauncherOption("bind_to"))
    assert pooled(capped(8, 1), knobs=(OMP, bind)).caps == {}
    assert pooled(capped(8, 1), capped(8, 2), knobs=(OMP, bind)).caps == {"omp": 2}
    alone = replace(bind, domain=Choice(("core",)))
    assert pooled(capped(8, 1), knobs=(OMP, alone)).caps == {"omp": 1}


def test_an_overridden_knob_is_dropped_with_the_reason_and_what_depends_on_it() -> None:
    places = Knob("places", Choice(("cores",)), Env(("P",)), when=(("omp", (1,)),))
    why = "the program calls set_num_threads(2)"
    pooling = pooled(overridden(1, 2, why), knobs=(OMP, WORKERS, places))
    assert pooling.dropped == (("omp", why), ("places", "it depends on omp, which has no effect"))
    chosen = Setting.of([("omp", 1), ("workers", 3), ("places", "cores")])
    assert pooling.canonical(chosen) == Setting.of({"workers": 3})


@pytest.mark.parametrize(
    ("effects", "is_dropped"),
    [
        ([overridden(1, 2), honoured(2), capped(8, 2)], True),  # what the program sets anyway
        ([overridden(1, 2), honoured(4)], False),
        ([overridden(1, None)], True),  # the program does not use it
        ([overridden(1, None), UNSEEN], False),  # one launch may have used it
    ],
)
def test_a_knob_is_dropped_if_the_same_came_of_whatever_was_asked(
    effects: list[Effect], *, is_dropped: bool
) -> None:
    assert bool(pooled(*effects).dropped) == is_dropped


@pytest.mark.parametrize(
    ("ending", "progress", "caps"),
    [
        (Finished(1.0, 10), (), {"omp": 2}),
        (stopped(1.0, 5.0), (Progress(1, 0.1),), {"omp": 2}),
        (stopped(1.0, 5.0), (), {}),  # it may not have started its threads yet
        (CRASH, (Progress(1, 0.1),), {}),
    ],
)
def test_only_launches_that_got_going_teach_anything(
    ending: Ending, progress: tuple[Progress, ...], caps: dict[str, int]
) -> None:
    outcome = Outcome(ending, 2.0, 0, progress, effects=(capped(8, 2),))
    made = record(1, Setting.of({"omp": 8}), Purpose.SEARCH, outcome)
    assert Pooling.from_records(SPEC, [made]).caps == caps


SMALL = st.integers(1, 16)
EFFECTS = st.builds(
    Effect, st.sampled_from(["omp", "workers"]), SMALL, st.none() | SMALL, st.sampled_from(Verdict)
)


@given(st.lists(EFFECTS, max_size=12), SMALL, st.integers(1, 4), st.randoms())
def test_canonical_is_idempotent_and_no_order_matters(
    seen: list[Effect], omp: int, workers: int, source: random.Random
) -> None:
    pooling = pooled(*seen)
    once = pooling.canonical(Setting.of({"omp": omp, "workers": workers}))
    assert pooling.canonical(once) == once
    source.shuffle(seen)
    assert pooled(*seen) == pooling
