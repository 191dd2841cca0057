"""What comes next, and what the search proposes."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.study_surface import MACHINE, SPEC, capped, overridden, surface
from tuner.model import (
    BASELINE,
    Choice,
    Effect,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    LaunchRecord,
    Outcome,
    Purpose,
    Setting,
    StudySpec,
)
from tuner.space import guesses
from tuner.study.plan import Plan, Step, Stop, all_over_the_limit, changes
from tuner.study.sampler import Search

CRASH = Failed(FailureKind.CRASHED, "exit status 1")
POINTS = [
    Setting.of({"omp_threads": threads, "iterator_workers": workers})
    for threads in range(1, 5)
    for workers in range(1, 4)
]


def record(
    number: int,
    setting: Setting,
    *,
    purpose: Purpose = Purpose.SEARCH,
    failed: Failed | None = None,
    effects: tuple[Effect, ...] = (),
) -> LaunchRecord:
    outcome = Outcome(failed or Finished(surface(setting), 100), 1.0, 0, effects=effects)
    started_at = "2026-01-02T03:04:05+00:00"
    return LaunchRecord(number, purpose, setting, (), {}, "", started_at, outcome, MACHINE)


def after(*settings: Setting, spec: StudySpec = SPEC) -> Plan:
    """A plan after the baseline and these trials."""
    first = record(1, BASELINE, purpose=Purpose.BASELINE)
    return Plan(spec, (first, *(record(n, s) for n, s in enumerate(settings, start=2))))


def test_the_order_of_a_study() -> None:
    assert Plan(SPEC, ()).next() == Step(Purpose.BASELINE, BASELINE)
    first, second = guesses(SPEC)
    assert after().next() == Step(Purpose.GUESS, first)
    assert after(first).next() == Step(Purpose.GUESS, second)
    assert after(first, second).next() == Step(Purpose.SEARCH, None)
    assert isinstance(after(*POINTS[:6]).next(), Stop)
    assert isinstance(after(*POINTS, spec=replace(SPEC, trials=99)).next(), Stop)


@settings(deadline=None, max_examples=30)
@given(st.sets(st.sampled_from(POINTS), max_size=11), st.integers(0, 5), st.randoms())
def test_a_proposal_is_new_and_a_function_of_what_was_measured(
    done: set[Setting], seed: int, rng: random.Random
) -> None:
    order = sorted(done, key=str)
    rng.shuffle(order)
    plan = after(*order, spec=replace(SPEC, seed=seed, trials=99))
    search = Search()
    proposed = search.propose(plan)
    assert proposed in POINTS and proposed not in done
    assert search.propose(plan) == Search().propose(plan) == proposed


@given(st.sets(st.sampled_from(POINTS), max_size=11), st.integers())
def test_any_setting_that_is_left(done: set[Setting], seed: int) -> None:
    left = after(*done).unmeasured(random.Random(seed))
    assert left in POINTS and left not in done


@settings(deadline=None, max_examples=15)
@given(st.integers(1, 4), st.integers(0, 3))
def test_under_a_cap_every_proposal_differs_on_this_machine(cap: int, seed: int) -> None:
    effects = capped("omp_threads", cap)
    spec = replace(SPEC, seed=seed, trials=99)
    shown = Setting.of({"omp_threads": 4, "iterator_workers": 3})
    plan = Plan(
        spec,
        (
            record(1, BASELINE, purpose=Purpose.BASELINE),
            record(2, shown, effects=tuple(effects(shown))),
        ),
    )
    assert plan.size == cap * 3
    search = Search()
    proposals = []
    while isinstance(plan.next(), Step):
        step = plan.next()
        assert isinstance(step, Step)
        setting = step.setting or search.propose(plan)
        proposals.append(setting)
        made = record(len(plan.records) + 1, setting, effects=tuple(effects(setting)))
        plan = replace(plan, records=(*plan.records, made))
    assert len(set(proposals)) == len(proposals) == cap * 3 - 1
    assert all(setting == plan.pooling.canonical(setting) for setting in proposals)


def test_an_overridden_knob_leaves_the_space() -> None:
    effects = overridden("iterator_workers", 2)
    made = record(2, POINTS[0], effects=tuple(effects(POINTS[0])))
    plan = Plan(SPEC, (record(1, BASELINE, purpose=Purpose.BASELINE), made))
    assert [knob.name for knob in plan.knobs] == ["omp_threads"]
    assert plan.size == 4
    assert "iterator_workers" not in Search().propose(plan).as_dict()


def test_a_large_space_is_not_listed() -> None:
    omp, workers = SPEC.knobs
    wide = tuple(replace(omp, name=f"k{place}", domain=IntRange(1, 9_000)) for place in range(4))
    plan = after(spec=replace(SPEC, knobs=(*wide, workers), trials=10))
    assert plan.size == 9_000**4 * 3
    assert len(plan.unmeasured(random.Random(1)).items) == 5


def test_failures_that_are_forgotten() -> None:
    failures = tuple(record(n, POINTS[n], failed=CRASH) for n in range(1, 6))
    assert Plan(SPEC, failures).fruitless() == failures
    again = Plan(SPEC, failures, forgiven_until=5)
    assert again.fruitless() == () and again.trials == 0 and not again.tried
    mixed = (*failures, record(6, POINTS[7]))
    assert Plan(SPEC, mixed).fruitless() == ()


def test_only_the_limit() -> None:
    limit = Failed(FailureKind.LIMIT, "ran longer than 2 s")
    assert all_over_the_limit([record(1, POINTS[0], failed=limit)])
    both = [record(1, POINTS[0], failed=limit), record(2, POINTS[1], failed=CRASH)]
    assert not all_over_the_limit(both)


def test_a_capped_range_is_measured_in_one_go() -> None:
    """Counting the settings of a wide range takes time in proportion to its width."""
    omp, workers = SPEC.knobs
    spec = replace(SPEC, knobs=(replace(omp, domain=IntRange(1, 10_000)), workers))
    shown = Setting.of({"omp_threads": 10_000, "iterator_workers": 1})
    made = record(2, shown, effects=tuple(capped("omp_threads", 5_000)(shown)))
    plan = Plan(spec, (record(1, BASELINE, purpose=Purpose.BASELINE), made))
    looked = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal looked
        looked += event == "call"

    sys.setprofile(count)
    try:
        assert plan.size == 5_000 * 3
    finally:
        sys.setprofile(None)
    assert looked < 50 * 10_000


def test_trials_of_another_space_do_not_count() -> None:
    omp, workers = SPEC.knobs
    old = [Setting.of({"iterator_workers": n}) for n in (1, 2)]
    plan = after(*old, spec=replace(SPEC, trials=2))
    assert (plan.trials, plan.outside, plan.most_trials) == (0, 2, 2)
    assert isinstance(plan.next(), Step)
    before = after(*old, spec=replace(SPEC, knobs=(workers,), trials=2))
    assert (before.trials, before.outside) == (2, 0)
    assert omp.name == "omp_threads"


def test_a_space_without_a_choice_is_named_as_that() -> None:
    effects = [
        *overridden("iterator_workers", 2)(POINTS[0]),
        *overridden("omp_threads", 4)(POINTS[0]),
    ]
    made = record(2, POINTS[0], effects=tuple(effects))
    plan = Plan(SPEC, (record(1, BASELINE, purpose=Purpose.BASELINE), made))
    assert plan.next() == Stop("no knob is left to tune")
    fixed = replace(SPEC, fixed=POINTS[0])
    assert after(POINTS[0], spec=fixed).next() == Stop("the only setting of the space was measured")


def test_two_settings_are_called_both() -> None:
    domains = {"omp_threads": IntRange(1, 2), "iterator_workers": IntRange(1, 1)}
    spec = replace(SPEC, knobs=tuple(replace(k, domain=domains[k.name]) for k in SPEC.knobs))
    made = [Setting.of({"omp_threads": n, "iterator_workers": 1}) for n in (1, 2)]
    assert after(*made, spec=spec).next() == Stop("both settings of the space were measured")
    crashed = record(3, made[1], failed=Failed(FailureKind.CRASHED, "x"))
    plan = after(made[0], spec=spec)
    failing = replace(plan, records=(*plan.records, crashed))
    assert failing.failed == 1
    assert failing.next() == Stop("both settings of the space were tried")


def test_the_longest_launch_says_how_long_a_launch_is() -> None:
    first, second = record(1, BASELINE, purpose=Purpose.WARM_UP), record(2, POINTS[0])
    cut = Finished(0.1, 60)
    first = replace(first, outcome=replace(first.outcome, ending=cut))
    early = replace(record(3, POINTS[1]), outcome=first.outcome)
    assert Plan(SPEC, (first,)).expected_iterations() == 60
    plan = Plan(SPEC, (first, second, early))
    assert plan.expected_iterations() == 100
    assert [r.number for r in plan.records if r.outcome.samples] == [2]


def test_what_changed_is_named() -> None:
    omp, workers = SPEC.knobs
    new = replace(
        SPEC,
        knobs=(replace(omp, domain=Choice((1, 2))), replace(omp, name="other")),
        fixed=Setting.of({"other": 1}),
        trial_limit_s=9.0,
        trials=99,
    )
    assert changes(SPEC, SPEC) == []
    assert changes(SPEC, new) == [
        "other is tuned too",
        "iterator_workers is not tuned any more",
        "omp_threads ranges over 1,2 instead of 1..4",
        "fixed: none -> other=1",
        "time limit: none -> 9.0",
    ]
    assert workers.name == "iterator_workers"
