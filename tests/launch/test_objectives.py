from __future__ import annotations

import pytest

from tuner.launch.objectives import objective_for, with_argument
from tuner.model import ObjectiveSpec
from tuner.model.errors import UsageError


def test_what_is_typed() -> None:
    for typed, spec in (
        ("logreport", ObjectiveSpec()),
        ("logreport:main/accuracy", ObjectiveSpec(key="main/accuracy")),
        ("logreport:steady", ObjectiveSpec(statistic="steady")),
        ("wall", ObjectiveSpec(kind="wall")),
        ("pattern:a: (b:c)", ObjectiveSpec(kind="pattern", pattern="a: (b:c)")),
        ("theirs:what it wants", ObjectiveSpec(kind="theirs", key="what it wants")),
    ):
        assert with_argument(ObjectiveSpec(), typed) == spec


def test_an_argument_that_is_none() -> None:
    for typed in ("pattern:", "logreport:", "wall:", "wall:5"):
        with pytest.raises(UsageError) as caught:
            with_argument(ObjectiveSpec(), typed)
        assert repr(typed) in caught.value.message and caught.value.hint


def test_wishes_that_do_not_go_together() -> None:
    for asked, said in (
        ({"kind": "speed"}, "unknown objective: speed"),
        ({"filename": ""}, "not the name of a file below the output folder"),
        ({"filename": "/etc/passwd"}, "not the name of a file below the output folder"),
        (
            {"kind": "pattern", "pattern": "(.)", "filename": "../x"},
            "not the name of a file below the",
        ),
        ({"kind": "wall", "unit": "ms"}, "--unit ms: the wall time is in seconds"),
        ({"unit": "ms"}, "--unit ms: the elapsed_time is in seconds"),
        ({"statistic": "steady", "unit": "ms"}, "the steady state is in seconds"),
        ({"kind": "wall", "maximize": True}, "--maximize: the wall time is better if"),
        ({"maximize": True}, "--maximize: the elapsed_time is better if it is smaller"),
        ({"key": "v", "unit": "ms", "maximize": True}, "a time in ms is better if it is"),
        ({"key": "v", "unit": "it/s"}, "the lowest rate in it/s would count as the best"),
        ({"key": "v", "unit": "seconds"}, "the unit 'seconds' is not known as a time"),
        ({"key": "v", "unit": "ns /\nday"}, "cannot be shown after a figure"),
        ({"key": "v", "unit": "x" * 21}, "cannot be shown after a figure"),
        ({"key": "v", "statistic": "steady"}, "from the log's elapsed_time, not of 'v'"),
        ({"kind": "wall", "key": "v"}, "the key 'v' is read from a log; the objective is wall"),
        ({"kind": "wall", "statistic": "steady"}, "a steady state is read from a log"),
        ({"kind": "wall", "pattern": "(.)"}, "a pattern is given, but the objective is wall"),
        ({"pattern": "(.)"}, "a pattern is given, but the objective is logreport"),
        ({"statistic": "mean"}, "the statistic 'mean' is not known"),
    ):
        with pytest.raises(UsageError) as caught:
            objective_for(ObjectiveSpec(**asked))
        assert said in caught.value.message and caught.value.hint


def test_wishes_that_do() -> None:
    for spec, needs_out in (
        (ObjectiveSpec(), True),
        (ObjectiveSpec(key="v", unit="GFLOPS", maximize=True), True),
        (ObjectiveSpec(key="v", unit="ms"), True),
        (ObjectiveSpec(kind="wall"), False),
        (ObjectiveSpec(kind="pattern", pattern="(.)", unit="ns/day", maximize=True), False),
    ):
        assert objective_for(spec).needs_out is needs_out, "the command must have {out}"
