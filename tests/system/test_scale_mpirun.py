"""``tune scale`` as a process, with a real mpirun on this host."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.light_trainer import MAIN, environment, tune
from tests.marked import eventually
from tuner.store import Store

pytestmark = pytest.mark.system

#: Half of the work is shared by the ranks; it takes no core.
PROGRAM = """
import os, time
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))
time.sleep(0.1 + 0.6 / ranks)
print("took", 0.1 + 0.6 / ranks)
"""

COMMAND = ("--", sys.executable, "program.py")
SCALE = ("scale", "-n", "2", "--objective", "pattern:took ([0-9.]+)", "--unit", "s", "--storage",
         "s.db")  # fmt: skip
FIXED = (*SCALE, "--setting", "omp_threads=1", "--rounds", "2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def launches(folder: Path, *studies: str) -> list[int]:
    with Store.open(f"sqlite:///{folder / 's.db'}", create=False) as store:
        return [len(store.launches(name)) for name in studies]


def test_a_fixed_setting_is_launched_in_rounds_and_nothing_is_measured_twice(folder: Path) -> None:
    done = tune(folder, *FIXED, "--price-per-hour", "3.6", "-o", "page.html", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^1x2 +0\.400 s +2 .* omp_threads=1( bind_to=unset)?$", done.stdout), (
        done.stdout
    )
    assert re.search(r"(?m)^2 ranks: 1\.75 times faster than 1 \(", done.stdout)
    assert "1.75 times faster" in (folder / "page.html").read_text()
    studies = ("program-1x1-fixed", "program-1x2-fixed")
    assert launches(folder, *studies) == [3, 3], "a warm-up and two rounds"
    again = tune(folder, *FIXED, "--price-per-hour", "3.6", "--json", "-q", *COMMAND)
    assert (again.returncode, again.stderr) == (0, "")
    document = json.loads(again.stdout)
    assert document["schema"] == "tuner.scale/1"
    assert [row["study"] for row in document["layouts"]] == list(studies)
    assert document["layouts"][1]["efficiency"]["ratio"] == pytest.approx(0.875)
    assert launches(folder, *studies) == [3, 3]


@pytest.mark.slow
def test_after_an_interruption_the_same_command_goes_on(folder: Path) -> None:
    words = [sys.executable, "-c", MAIN, *FIXED, *COMMAND]
    pipe, env = subprocess.PIPE, environment(folder)
    with subprocess.Popen(words, cwd=folder, env=env, text=True, stderr=pipe) as first:
        eventually((folder / "program-1x2-fixed").exists)
        os.kill(first.pid, signal.SIGINT)
        errors = first.communicate(timeout=60)[1]
    assert first.returncode == 128 + signal.SIGINT
    assert "interrupted" in errors
    done = tune(folder, *FIXED, *COMMAND)
    assert done.returncode == 0, done.stderr
    with Store.open(f"sqlite:///{folder / 's.db'}", create=False) as store:
        for name in ("program-1x1-fixed", "program-1x2-fixed"):
            made = [r for r in store.launches(name) if r.outcome.samples]
            assert sum(record.purpose == "record" for record in made) == 2


@pytest.mark.slow
def test_each_layout_is_tuned_by_a_study_of_its_own(folder: Path) -> None:
    options = ("--knob", "omp_threads=1..2", "--trials", "2", "--no-confirm", "--live", "off")
    done = tune(folder, *SCALE, *options, "--name", "job", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^2 ranks: 1\.75 times faster than 1 \(", done.stdout), done.stdout
    assert min(launches(folder, "job-1x1", "job-1x2")) >= 3


@pytest.mark.slow
def test_a_job_that_works_in_one_layout_only_has_no_scaling(folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM + "raise SystemExit(ranks > 1)\n")
    done = tune(folder, *FIXED, *COMMAND)
    assert done.returncode == 3
    assert "1x2: the study program-1x2-fixed" in done.stderr
    assert "error: nothing could be measured: 2 launches in a row failed" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--setting", "omp_thread=1"), "--setting omp_thread: there is no such knob"),
        (("--setting", "omp_threads"), "--setting 'omp_threads': is not NAME=VALUE"),
        (("--fix", "omp_threads=2"), "--setting and --fix both set knobs"),
        (("-n", "1"), "there is only one layout"),
        (("--ppn", "1,x"), "--ppn '1,x' is no list of whole numbers"),
        (
            ("--price-per-hour", "missing"),
            "--price-per-hour missing cannot be read: No such file or directory",
        ),
        (("--price-per-hour", "prices"), "--price-per-hour prices: localhost has no price"),
        (("--job-iterations", "9"), "--job-iterations needs a log of iterations"),
    ],
)
def test_a_mistake_is_named_before_anything_starts(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    (folder / "prices").write_text("h1 1.20\n")
    done = tune(folder, *FIXED, *words, *COMMAND)
    assert done.returncode == 2
    assert f"error: {said}" in done.stderr
    assert not (folder / "s.db").exists()
