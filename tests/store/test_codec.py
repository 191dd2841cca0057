from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tuner.model import (
    Choice,
    Effect,
    Env,
    Flag,
    IntRange,
    Knob,
    LauncherInfo,
    LauncherOption,
    Layout,
    Machine,
    ObjectiveSpec,
    Observation,
    RankView,
    Setting,
    StudySpec,
    Verdict,
)
from tuner.store import codec

words = st.text(max_size=8)
numbers = st.integers(-(10**6), 10**6)
values = numbers | words
floats = st.floats(0, 1e6)
domains = st.builds(IntRange, numbers, numbers | st.just("cores")) | st.builds(
    Choice, st.lists(values, max_size=3).map(tuple)
)
routes = (
    st.builds(Env, st.lists(words, max_size=2).map(tuple))
    | st.builds(Flag, st.none() | words)
    | st.builds(LauncherOption, words)
)
knobs = st.builds(
    Knob, words, domains, routes, help=words, default=st.none() | values, live=st.booleans()
)
settings = st.dictionaries(words, values, max_size=3).map(Setting.of)
machines = st.builds(
    Machine,
    words,
    words,
    numbers,
    numbers,
    numbers,
    st.none() | floats,
    numbers,
    numbers,
    st.lists(words, max_size=2).map(tuple),
)
specs = st.builds(
    StudySpec,
    name=words,
    command=st.lists(words, max_size=3).map(tuple),
    launcher=st.builds(LauncherInfo, words, words, words, st.none() | words),
    layout=st.builds(Layout, numbers, st.lists(words, max_size=2).map(tuple)),
    machine=machines,
    knobs=st.lists(knobs, max_size=3).map(tuple),
    fixed=settings,
    objective=st.builds(ObjectiveSpec, words, words, words),
    trial_limit_s=st.none() | floats,
    left_out=st.lists(st.tuples(words, words), max_size=2).map(tuple),
)
ranks = st.builds(
    RankView,
    numbers,
    numbers,
    numbers,
    st.lists(numbers, max_size=3).map(tuple),
    st.none() | numbers,
    pools=st.lists(st.tuples(words, numbers), max_size=2).map(tuple),
)
effects = st.builds(
    Effect, words, values, st.none() | values, st.sampled_from(Verdict), reason=words
)


@given(specs)
def test_specs_survive(spec: StudySpec) -> None:
    text = codec.dumps(spec)
    assert codec.loads(StudySpec, text) == spec
    assert text.isascii()


@given(st.lists(ranks, max_size=3).map(tuple), st.lists(effects, max_size=3).map(tuple))
def test_what_was_seen_survives(seen: tuple[RankView, ...], judged: tuple[Effect, ...]) -> None:
    assert codec.loads(Observation, codec.dumps(Observation(seen))) == Observation(seen)
    assert codec.loads(tuple[Effect, ...], codec.dumps(judged)) == judged


def test_a_lone_surrogate_survives() -> None:
    assert codec.loads(Setting, codec.dumps(Setting.of({"a": "\udcff\0"}))).as_dict() == {
        "a": "\udcff\0"
    }


def test_a_field_that_an_older_tune_did_not_know_takes_its_default() -> None:
    data = json.loads(codec.dumps(Knob("k", IntRange(1, 2), Flag())))
    del data["live"]
    data["of a newer tune"] = 1
    assert codec.loads(Knob, json.dumps(data)) == Knob("k", IntRange(1, 2), Flag())
