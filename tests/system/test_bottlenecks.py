"""Bottlenecks that are really made, under the real mpirun, are named rightly.

The host of the tests is not quiet: as root the launches take precedence of what else runs there.
If other processes hold a launch back all the same, the planted bottleneck must be named next.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bottlenecks import bench
from tests.bottlenecks.around import call_in_namespace
from tests.bottlenecks.rows import PLANTED, Planted

pytestmark = [pytest.mark.system, pytest.mark.slow]

_BY_NAME = {planted.name: planted for planted in PLANTED}


def named(planted: Planted, folder: Path, program: Path | None = None) -> None:
    lacks = planted.around.lacks()
    if lacks:
        pytest.skip(lacks)
    _, found = bench.launch(planted, folder / "launch", program)
    assert bench.is_named(planted, found, busy=True), found


@pytest.mark.parametrize("name", ["sleeping rank", "1 slow loader worker", "CPU hogs beside"])
def test_a_trainer_in_python(name: str, tmp_path: Path) -> None:
    named(_BY_NAME[name], tmp_path)


def test_a_throttled_control_group(tmp_path: Path) -> None:
    named(_BY_NAME["throttled control group"], tmp_path)


def test_a_sleeping_rank_without_python(tmp_path: Path) -> None:
    program = bench.compiled(tmp_path)
    if program is None:
        pytest.skip("no mpicc")
    named(_BY_NAME["sleeping rank"], tmp_path, program)


def test_a_slow_link() -> None:
    planted = _BY_NAME["slow link"]
    lacks = planted.around.lacks()
    if lacks:
        pytest.skip(lacks)
    ran = call_in_namespace([sys.executable, "-m", "tests.bottlenecks", "--busy", planted.name])
    assert ran.returncode == 0, ran.stdout + ran.stderr
