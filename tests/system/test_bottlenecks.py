"""Bottlenecks that are really made, under the real mpirun, are named rightly.

The host of the tests is not quiet: as root the launches take precedence of what else runs there.
If other processes hold a launch back all the same, the planted bottleneck must be named next.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bottlenecks.planted import PLANTED, call_in_namespace, compiled

pytestmark = [pytest.mark.system, pytest.mark.slow]

PYTHON = ("sleeping rank", "1 slow loader worker", "CPU hogs beside", "throttled control group")


@pytest.mark.parametrize(
    ("name", "language"),
    [*((name, "python") for name in PYTHON), ("sleeping rank", "c"), ("slow link", "python")],
)
def test_a_planted_bottleneck_is_named(name: str, language: str, tmp_path: Path) -> None:
    (planted,) = (each for each in PLANTED if each.name == name)
    if lacks := planted.lacks():
        pytest.skip(lacks)
    if planted.slow_link:
        ran = call_in_namespace([sys.executable, "-m", "tests.bottlenecks", "--busy", name])
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return
    program = compiled(tmp_path) if language == "c" else None
    if language == "c" and program is None:
        pytest.skip("no mpicc")
    _, found = planted.launch(tmp_path / "launch", program)
    assert planted.is_named(found, busy=True), found
