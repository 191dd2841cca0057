"""Objectives as they are typed, and the figure that a pattern finds in what a program prints."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

from fuzz.target import Target
from fuzz.texts import Texts
from tuner.launch.objectives import objective_for, with_argument
from tuner.launch.objectives.pattern import compiled, judged, last_match
from tuner.model import Failed, ObjectiveSpec, figures, price
from tuner.model.errors import UsageError
from tuner.store import codec

_OUTPUT = Path("/launch/output.log")

#: Of every kind, but none that tries many ways: a search is not broken off here.
_PATTERNS = tuple(
    ObjectiveSpec(kind="pattern", pattern=pattern, unit=unit, maximize=maximize)
    for pattern, unit, maximize in (
        (r"Performance: *(\S+)", "ns/day", True),
        (r"^(?P<time>[^ ]*) s$|took (.*)", "ms", False),
        (r"(?i)loop time of ([-+0-9.ed]+)|none", "", False),
        (r"([^:]*)", "h", False),
    )
)


def objective(data: bytes) -> None:
    """``KIND[:ARG]``, a unit and a wish for more of it, a line each."""
    text = data.decode("utf-8", "surrogateescape")
    kind, unit, more, *_ = (*text.split("\n"), "", "")
    try:
        spec = replace(with_argument(ObjectiveSpec(), kind), unit=unit, maximize=more == "more")
        objective_for(spec)
    except UsageError as error:
        assert error.message.strip(), "an error that says nothing"
        return
    assert math.isclose(spec.figure(spec.cost(3.5)), 3.5), spec
    assert figures.shown(spec, spec.cost(3.5)).isprintable(), spec
    assert codec.loads(ObjectiveSpec, codec.dumps(spec)) == spec, spec
    price.timed(spec)


def output(data: bytes) -> None:
    """What a program printed: a figure that can be compared and shown, or one reason."""
    for spec in _PATTERNS:
        ending = judged(spec, last_match(io.BytesIO(data), compiled(spec.pattern), 60.0), _OUTPUT)
        if isinstance(ending, Failed):
            assert ending.reason.isprintable(), ending.reason
            assert len(ending.reason) < 1_000, "a reason that nobody reads"
            continue
        assert 0 < ending.elapsed_s**2 < math.inf, ending
        assert figures.shown(spec, ending.elapsed_s).isprintable(), ending


TARGETS = (
    Target(
        "objective",
        objective,
        Texts(
            [
                b"pattern:Performance: ([0-9.]+)\nns/day\nmore",
                b"pattern:(?P<t>\\d+) s\nms\n",
                b"logreport:main/loss\n\n",
                b"logreport:steady\n\n",
                b"wall\n\n",
            ],
            (b"(", b")", b"[", b"*", b"+", b"{1,9}", b"(?P<a>", b"(?", b"\\", b"\nmore", b"GFLOPS"),
        ),
        share=0.03,  # each unknown kind is looked for among all packages
    ),
    Target(
        "output",
        output,
        Texts(
            [
                b"start\nPerformance:   12.5  ns/day\n",
                b" 10 %\r 20 %\rLoop time of 1.5D+02 on 4\ntook 4\n3.5 s\n",
                b"took 1e-3\nPerformance: nan\n",
            ],
            (b"Performance: ", b"took ", b" s\n", b"\r", b"1e999", b"1e-999", b"-", b"1_0", b"inf"),
        ),
    ),
)
