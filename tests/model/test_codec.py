from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.model import (
    Effect,
    Flag,
    IntRange,
    Knob,
    LaunchRecord,
    Observation,
    Setting,
    StudySpec,
    Telemetry,
    When,
    codec,
)

st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
st.register_type_strategy(float, st.floats(allow_nan=False))

#: Whatever is kept, and the parts that are large.
KINDS: tuple[Any, ...] = (Knob, Observation, tuple[Effect, ...], Telemetry, Setting, When)


@pytest.mark.parametrize("kind", [*KINDS, StudySpec, LaunchRecord])
@given(data=st.data())
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
def test_everything_survives(kind: Any, data: st.DataObject) -> None:
    value = data.draw(st.from_type(kind))
    text = codec.dumps(value)
    assert codec.loads(kind, text) == value
    assert text.isascii()


def test_a_lone_surrogate_survives() -> None:
    odd = Setting.of({"a": "\udcff\0"})
    assert codec.loads(Setting, codec.dumps(odd)) == odd


def test_a_field_that_an_older_tune_did_not_know_takes_its_default() -> None:
    data = json.loads(codec.dumps(Knob("k", IntRange(1, 2), Flag())))
    del data["live"]
    data["of a newer tune"] = 1
    assert codec.loads(Knob, json.dumps(data)) == Knob("k", IntRange(1, 2), Flag())
