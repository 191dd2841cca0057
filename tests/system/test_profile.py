"""``tune profile``: what it shows of a job whose defaults wait for their data."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.light_trainer import QUICK, command, make_folder, tune

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make_folder(tmp_path_factory.mktemp("profile"))
    done = tune(found, *QUICK, "--trials", "2", "--no-confirm", *command())
    assert done.returncode == 0, done.stderr
    return found


def test_the_function_that_waited_is_named(folder: Path) -> None:
    before = tune(folder, "export", "--format", "json").stdout
    done = tune(folder, "profile", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    defaults, best = document["runs"]
    assert (defaults["name"], defaults["ranks"], best["ranks"]) == ("baseline", 2, 2)
    assert best["elapsed_s"] < defaults["elapsed_s"]
    slept = next(each for each in document["functions"] if each["function"] == "time.sleep")
    assert slept["before_s"] > slept["after_s"]
    assert slept["points"] < 0
    # Nothing of it counts: the study is as it was.
    assert tune(folder, "export", "--format", "json").stdout == before


def test_people_get_a_table(folder: Path) -> None:
    done = tune(folder, "profile", "--top", "3")
    assert done.returncode == 0, done.stderr
    assert "Profile of quick" in done.stdout
    assert "time.sleep" in done.stdout
    assert "profiling defaults" in done.stderr


def test_a_program_that_leaves_no_profile_is_said(folder: Path) -> None:
    script = 'exec "$0" -S train.py --out "$1" -j "$2"'
    words = ("--", "sh", "-c", script, sys.executable, "{out}", "{iterator_workers}")
    space = ("--knob", "iterator_workers=1..2", "--fix", "omp_threads=1")
    quick = ("-n", "2", "--name", "bare", "--warm-ups", "0", "--no-confirm", "--trials", "1")
    options = (*quick, *space, "--baseline", "iterator_workers=2")
    done = tune(folder, *options, *words)
    assert done.returncode == 0, done.stderr
    done = tune(folder, "profile", "bare")
    assert done.returncode == 3
    assert "no rank of baseline left a profile" in done.stderr
    assert "Traceback" not in done.stderr
