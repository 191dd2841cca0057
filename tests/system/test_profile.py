"""``tune profile``: what it shows of a job whose defaults wait for their data."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.light_trainer import make_folder, tune

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_the_function_that_waited_is_named(quick_study: Path) -> None:
    before = tune(quick_study, "export", "--format", "json").stdout
    done = tune(quick_study, "profile", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    defaults, best = document["runs"]
    assert (defaults["name"], defaults["ranks"], best["ranks"]) == ("baseline", 2, 2)
    assert best["elapsed_s"] < defaults["elapsed_s"]
    slept = next(each for each in document["functions"] if each["function"] == "time.sleep")
    assert slept["before_s"] > slept["after_s"]
    assert slept["points"] < 0
    after = tune(quick_study, "export", "--format", "json").stdout
    assert after == before, "the runs of a profile do not count"


def test_people_get_a_table(quick_study: Path) -> None:
    done = tune(quick_study, "profile", "--top", "3")
    assert done.returncode == 0, done.stderr
    assert "Profile of quick" in done.stdout
    assert "time.sleep" in done.stdout
    assert "profiling defaults" in done.stderr


def test_a_program_that_leaves_no_profile_is_an_error(tmp_path: Path) -> None:
    script = 'exec "$0" -S train.py --out "$1" -j "$2"'
    words = ("--", "sh", "-c", script, sys.executable, "{out}", "{iterator_workers}")
    space = ("--knob", "iterator_workers=1..2", "--fix", "omp_threads=1")
    quick = ("-n", "2", "--name", "bare", "--warm-ups", "0", "--no-confirm", "--trials", "1")
    options = (*quick, *space, "--baseline", "iterator_workers=2")
    done = tune(make_folder(tmp_path), *options, *words)
    assert done.returncode == 0, done.stderr
    done = tune(tmp_path, "profile", "bare")
    assert done.returncode == 3
    assert "no rank of baseline left a profile" in done.stderr
    assert "Traceback" not in done.stderr
