from __future__ import annotations

from typing import Any

import pytest

from tuner.launch.objectives import objective_for, with_argument
from tuner.model import ObjectiveSpec
from tuner.model.errors import UsageError


@pytest.mark.parametrize(
    ("typed", "spec"),
    [
        ("logreport", ObjectiveSpec()),
        ("logreport:main/accuracy", ObjectiveSpec(key="main/accuracy")),
        ("logreport:steady", ObjectiveSpec(statistic="steady")),
        ("wall", ObjectiveSpec(kind="wall")),
        ("pattern:a: (b:c)", ObjectiveSpec(kind="pattern", pattern="a: (b:c)")),
        ("theirs:what it wants", ObjectiveSpec(kind="theirs", key="what it wants")),
        ("pattern:", None),
        ("wall:5", None),
    ],
)
def test_what_is_typed(typed: str, spec: ObjectiveSpec | None) -> None:
    if spec is not None:
        assert with_argument(ObjectiveSpec(), typed) == spec
        return
    with pytest.raises(UsageError) as caught:
        with_argument(ObjectiveSpec(), typed)
    assert repr(typed) in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "speed"}, "unknown objective: speed"),
        ({"filename": "../x"}, "not the name of a file below the output folder"),
        ({"kind": "wall", "unit": "ms"}, "--unit ms: the wall time is in seconds"),
        ({"maximize": True}, "--maximize: the elapsed_time is better if it is smaller"),
        ({"key": "v", "unit": "ms", "maximize": True}, "a time in ms is better if it is"),
        ({"key": "v", "unit": "it/s"}, "the lowest rate in it/s would count as the best"),
        ({"key": "v", "unit": "seconds"}, "the unit 'seconds' is not known as a time"),
        ({"key": "v", "statistic": "steady"}, "from the elapsed_time of a log; the objective is"),
        ({"kind": "wall", "key": "v"}, "the key 'v' is read from a log; the objective is wall"),
        ({"pattern": "(.)"}, "a pattern is given, but the objective is logreport"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        objective_for(ObjectiveSpec(**options))
    assert said in caught.value.message and caught.value.hint


def test_only_what_is_read_below_out_needs_it() -> None:
    assert objective_for(ObjectiveSpec(key="v", unit="GFLOPS", maximize=True)).needs_out
    assert not objective_for(ObjectiveSpec(kind="wall")).needs_out
    assert not objective_for(ObjectiveSpec(kind="pattern", pattern="(.)")).needs_out
