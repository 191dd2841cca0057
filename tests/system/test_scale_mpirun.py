from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.light_trainer import tune
from tuner.store import Store

pytestmark = pytest.mark.system

#: A part of the work is shared by the ranks. It is counted by the CPU time that it takes.
PROGRAM = """
import os, time
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))
while time.process_time() < 0.1 + 0.3 / ranks:
    pass
"""

#: The same by the program's own clock; it takes no core.
SLEEPS = """
import os, time
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))
time.sleep(0.1 + 0.3 / ranks)
print("took", 0.1 + 0.3 / ranks)
"""

COMMAND = ("--", sys.executable, "program.py")
SCALE = ("scale", "-n", "2", "--storage", "s.db")
FIXED = (*SCALE, "--objective", "wall", "--setting", "omp_threads=1", "--rounds", "3")
PRINTED = ("--objective", "pattern:took ([0-9.]+)", "--unit", "s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def launches(folder: Path, *studies: str) -> list[int]:
    with Store.open(f"sqlite:///{folder / 's.db'}", create=False) as store:
        return [len(store.launches(name)) for name in studies]


def test_a_fixed_setting_is_launched_by_pairs_and_nothing_is_measured_twice(folder: Path) -> None:
    done = tune(folder, *FIXED, "--price-per-hour", "3.6", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^2 ranks: .*, \d pairs side by side\)$", done.stdout), done.stdout
    studies = ("program-1x1-fixed", "program-1x2-fixed")
    before = launches(folder, *studies)
    again = tune(folder, *FIXED, "--price-per-hour", "3.6", "--json", "-q", *COMMAND)
    assert (again.returncode, again.stderr) == (0, "")
    document = json.loads(again.stdout)
    assert document["schema"] == "tuner.scale/1"
    first, second = document["layouts"]
    assert [first["study"], second["study"]] == list(studies)
    assert first["by_pairs"] is None
    pairs = second["by_pairs"]["pairs"]
    assert second["by_pairs"] == {"study": studies[0], "pairs": pairs, "is_side_by_side": True}
    assert launches(folder, *studies) == before == [1 + pairs] * 2, "a warm-up and the pairs"


@pytest.mark.slow
def test_each_layout_is_tuned_by_a_study_of_its_own(folder: Path) -> None:
    options = ("--knob", "omp_threads=1..2", "--trials", "2", "--no-confirm", "--live", "off")
    (folder / "program.py").write_text(SLEEPS)
    done = tune(folder, *SCALE, *PRINTED, *options, "--name", "job", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^2 ranks: 1\.60 times faster than 1 \(", done.stdout), done.stdout
    assert min(launches(folder, "job-1x1", "job-1x2")) >= 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--setting", "omp_thread=1"), "--setting omp_thread: nothing carries it to the program"),
        (("-n", "1"), "there is only one layout"),
    ],
)
def test_a_mistake_is_named_before_anything_starts(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    done = tune(folder, *FIXED, *words, *COMMAND)
    assert done.returncode == 2
    assert f"error: {said}" in done.stderr
    assert not (folder / "s.db").exists()
