"""Which settings come to the same: laws and contradictions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.knobs.pooling import Pooling
from tuner.model import (
    Choice,
    Domain,
    Effect,
    Ending,
    Env,
    Failed,
    FailureKind,
    Finished,
    Flag,
    IntRange,
    Knob,
    LauncherInfo,
    LauncherOption,
    LaunchRecord,
    Layout,
    Machine,
    Outcome,
    Progress,
    Purpose,
    Setting,
    Stopped,
    StudySpec,
    Verdict,
)

MACHINE = Machine("host", "cpu", 2, 2, 2, None, 1, 2**30)
OMP = Knob("omp", IntRange(1, 16), Env(("OMP_NUM_THREADS",)))
WORKERS = Knob("workers", IntRange(1, 4), Flag("-j"))
SPEC = StudySpec(
    "s",
    ("prog", "{out}"),
    LauncherInfo("openmpi", "/bin/mpirun", "5"),
    Layout(2),
    MACHINE,
    (OMP, WORKERS),
)


FINISHED = Finished(1.0, 10)
FAILED = Failed(FailureKind.CRASHED, "died")
STOPPED = Stopped(1.0, 5.0, 4.0, 6.0, 0.1, "drift")


def honoured(asked: int, knob: str = "omp") -> Effect:
    return Effect(knob, asked, asked, Verdict.HONOURED)


def capped(asked: int, observed: int) -> Effect:
    return Effect("omp", asked, observed, Verdict.CAPPED)


def overridden(asked: int, observed: int | None, reason: str = "") -> Effect:
    return Effect("omp", asked, observed, Verdict.OVERRIDDEN, reason)


def pooled(*effects: Effect, spec: StudySpec = SPEC) -> Pooling:
    return Pooling.from_effects(spec, effects)


def test_values_above_the_cap_are_the_cap() -> None:
    pooling = pooled(capped(16, 2))
    assert pooling.caps == {"omp": 2}
    for asked in (2, 3, 16):
        canonical = pooling.canonical(Setting.of({"omp": asked, "workers": 4}))
        assert canonical == Setting.of({"omp": 2, "workers": 4})
    assert pooling.canonical(Setting.of({"omp": 1})) == Setting.of({"omp": 1})


def test_a_cap_below_an_honoured_value_is_not_believed() -> None:
    pooling = pooled(capped(8, 3), honoured(4))
    assert pooling.caps == {}
    assert len(pooling.notes) == 1


def test_the_cap_of_one_binding_is_not_that_of_all() -> None:
    bind = Knob("bind", Choice(("none", "core")), LauncherOption("bind_to"))
    spec = replace(SPEC, knobs=(OMP, bind))
    assert pooled(capped(8, 1), spec=spec).caps == {}
    assert pooled(capped(8, 1), capped(8, 2), spec=spec).caps == {"omp": 2}
    alone = replace(SPEC, knobs=(OMP, replace(bind, domain=Choice(("core",)))))
    assert pooled(capped(8, 1), spec=alone).caps == {"omp": 1}


def test_an_overridden_knob_is_dropped_with_the_reason() -> None:
    pooling = pooled(overridden(1, 2, "the program calls set_num_threads(2)"))
    assert pooling.dropped == (("omp", "the program calls set_num_threads(2)"),)
    assert pooling.canonical(Setting.of({"omp": 1, "workers": 3})) == Setting.of({"workers": 3})


def test_the_value_that_the_program_sets_anyway_is_no_contradiction() -> None:
    assert pooled(overridden(1, 2), honoured(2), capped(8, 2)).dropped


@pytest.mark.parametrize("other", [honoured(4), overridden(4, 8), capped(16, 4)])
def test_another_effect_elsewhere_keeps_the_knob(other: Effect) -> None:
    pooling = pooled(overridden(1, 2), other)
    assert pooling.dropped == ()
    assert any("omp was overridden in one launch" in note for note in pooling.notes)


def test_what_cannot_be_observed_is_no_evidence() -> None:
    effect = Effect("omp", 8, None, Verdict.NOT_OBSERVABLE)
    assert pooled(effect) == pooled()
    assert pooled(effect, overridden(1, 2)).dropped


def workers(asked: int, children: int) -> Effect:
    """As tuner.knobs.effects judges them: a lower bound."""
    verdict = Verdict.HONOURED if children >= asked else Verdict.NOT_OBSERVABLE
    return Effect("workers", asked, children, verdict)


def test_the_same_processes_whatever_is_asked_drop_the_knob() -> None:
    pooling = pooled(workers(1, 8), workers(2, 8), workers(4, 8))
    reason = "each rank had 8 child processes whether 1, 2 or 4 was asked for"
    assert pooling.dropped == (("workers", reason),)
    assert pooling.canonical(Setting.of({"omp": 1, "workers": 3})) == Setting.of({"omp": 1})


@pytest.mark.parametrize(
    "seen",
    [
        [(1, 8), (4, 8)],  # two launches: chance
        [(1, 8), (1, 8), (1, 8)],  # nothing else was asked
        [(1, 8), (2, 8), (3, 8)],  # `max(j, 3)` would look the same below its end
        [(2, 8), (3, 8), (4, 8)],
        [(1, 8), (2, 8), (4, 7)],  # one launch differs
        [(1, 3), (2, 3), (4, 3)],  # too few for workers: they may be threads
        [(1, 0), (2, 0), (4, 0)],
    ],
)
def test_weak_evidence_drops_nothing(seen: list[tuple[int, int]]) -> None:
    assert pooled(*(workers(*pair) for pair in seen)).dropped == ()


def test_helpers_of_multiprocessing_are_no_workers() -> None:
    """A sample taken before the workers came sees a fork server and a resource tracker."""
    spec = replace(SPEC, knobs=(replace(WORKERS, domain=IntRange(1, 2)),))
    early = [workers(1, 2), workers(2, 2), workers(1, 2), workers(2, 2)]
    assert pooled(*early, spec=spec).dropped == ()
    assert pooled(*early, workers(2, 6), spec=spec).dropped == ()


def record(
    effect: Effect, ending: Ending = FINISHED, progress: tuple[Progress, ...] = ()
) -> LaunchRecord:
    outcome = Outcome(ending, 2.0, 0, progress, effects=(effect,))
    setting = Setting.of({effect.knob: effect.asked})
    return LaunchRecord(1, Purpose.SEARCH, setting, (), {}, "", "", outcome, MACHINE)


def test_only_launches_that_got_going_teach_anything() -> None:
    """A launch that was stopped before its first entry may not have started its threads yet."""
    for ending, progress, caps in (
        (FINISHED, (), {"omp": 2}),
        (STOPPED, (Progress(1, 0.1),), {"omp": 2}),
        (STOPPED, (), {}),
        (FAILED, (Progress(1, 0.1),), {}),
    ):
        made = record(capped(8, 2), ending, progress)
        assert Pooling.from_records(SPEC, [made]).caps == caps


# --- laws --------------------------------------------------------------------------------


def effects() -> st.SearchStrategy[Effect]:
    small = st.integers(1, 16)
    return st.builds(
        Effect,
        st.sampled_from(["omp", "workers"]),
        small,
        st.one_of(st.none(), small),
        st.sampled_from(list(Verdict)),
    )


def settings() -> st.SearchStrategy[Setting]:
    return st.fixed_dictionaries({"omp": st.integers(1, 16), "workers": st.integers(1, 4)}).map(
        Setting.of
    )


@given(st.lists(effects(), max_size=12), settings())
def test_canonical_is_idempotent(seen: list[Effect], setting: Setting) -> None:
    pooling = pooled(*seen)
    once = pooling.canonical(setting)
    assert pooling.canonical(once) == once


@given(st.lists(effects(), max_size=8).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e))))
def test_the_order_of_the_launches_does_not_matter(pair: tuple[list[Effect], list[Effect]]) -> None:
    given_order, other_order = (pooled(*effects) for effects in pair)
    assert given_order == other_order


@given(st.lists(st.integers(1, 4)), st.sampled_from([1, 2]), st.integers(0, 3), st.data())
def test_workers_that_are_really_started_are_never_dropped(
    asked: list[int], each: int, helpers: int, data: st.DataObject
) -> None:
    """One process or two a worker, with helpers: also where one launch was seen in part."""
    asked = [1, 4, 1, 4, *asked]
    children = [each * value + helpers for value in asked]
    assert pooled(*map(workers, asked, children)).dropped == ()
    late = data.draw(st.integers(0, len(asked) - 1))
    children[late] = data.draw(st.integers(0, children[late]))
    assert pooled(*map(workers, asked, children)).dropped == ()


@given(st.lists(st.integers(1, 4), max_size=12), st.integers(4, 64))
def test_workers_of_the_programs_own_choice_are_dropped_once_both_ends_were_tried(
    asked: list[int], children: int
) -> None:
    dropped = pooled(*(workers(value, children) for value in asked)).dropped
    assert bool(dropped) == (len(asked) >= 3 and {1, 4} <= set(asked))


def omp_domains() -> st.SearchStrategy[Domain]:
    lists = st.lists(st.integers(1, 16), min_size=1, max_size=8, unique=True)
    return st.one_of(st.just(OMP.domain), lists.map(lambda v: Choice(tuple(v))))


@given(st.data(), omp_domains(), st.integers(1, 16))
def test_equal_effects_have_one_form_and_others_do_not(
    data: st.DataObject, domain: Domain, true_cap: int
) -> None:
    """On a machine that really caps: pooled where, and only where, it comes to the same."""
    spec = replace(SPEC, knobs=(replace(OMP, domain=domain),))
    allowed = domain.values if isinstance(domain, Choice) else tuple(range(1, 17))
    value = st.sampled_from([v for v in allowed if isinstance(v, int)])
    asked = data.draw(st.lists(value, min_size=1))
    seen = [capped(v, true_cap) if v > true_cap else honoured(v) for v in asked]
    pooling = pooled(*seen, spec=spec)
    one, other = data.draw(value), data.draw(value)
    same_form = pooling.canonical(Setting.of({"omp": one})) == pooling.canonical(
        Setting.of({"omp": other})
    )
    same_effect = min(one, true_cap) == min(other, true_cap)
    cap_is_known = any(v > true_cap for v in asked)
    assert same_form == (same_effect if cap_is_known else one == other)
