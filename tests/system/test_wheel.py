"""What is published: a wheel that is the same each time, needs no source tree and few packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.light_trainer import captured

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
#: All that a wheel is made of.
SOURCES = (
    *("tuner", "workloads", "wrappers", "studies"),
    *("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "docs/tune.1"),
)


def built(folder: Path) -> Path:
    sources = folder / "sources"
    for name in SOURCES:
        path = ROOT / name
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__")
        if path.is_dir():
            shutil.copytree(path, sources / name, ignore=ignored)
        else:
            shutil.copy(path, sources / name)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run([*pip, "-w", folder, sources], env=env, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_a_wheel_has_the_same_bytes_each_time_and_works_without_the_sources(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    wheel = built(first)
    assert wheel.read_bytes() == built(second).read_bytes()

    place = tmp_path / "place"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place)
    subprocess.run([*pip, wheel], check=True)
    env = {**os.environ, "PYTHONPATH": str(place), "TUNE_STORAGE": str(tmp_path / "tune.db")}
    where = [sys.executable, "-c", "import tuner; print(tuner.__file__)"]
    found = subprocess.run(where, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(place)
    assert (place / "share/man/man1/tune.1").is_file()
    program = ("--objective", "wall", "--knob", "omp_threads=1,2", "--", "true")
    for words in (["--dry-run"], ["-n", "1", "--no-confirm", "--trials", "2", *program], ["show"]):
        tune = [sys.executable, str(place / "bin" / "tune"), *words]
        done = captured(tune, tmp_path, env)
        assert done.returncode == 0, done.stdout + done.stderr

    # A program in another environment, launched by that installation, imports the client.
    probe = place / "tuner/wrappers/probe"
    imports = ("-c", "from tuner import live; print(live.__file__)")
    done = captured(
        [os.path.realpath(sys.executable), *imports],
        tmp_path,
        {**os.environ, "PYTHONPATH": str(probe)},
    )
    assert done.stdout == f"{place}/tuner/live/__init__.py\n", done.stderr


def test_the_core_needs_few_packages_and_names_the_extra_that_is_missing(tmp_path: Path) -> None:
    wheel, place = built(tmp_path), tmp_path / "place"
    pip = (place / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    for command in ((sys.executable, "-m", "venv", place), pip):
        subprocess.run(command, check=True)
    (info,) = place.glob("lib/*/site-packages/runtime_tuner-*.dist-info")
    requires = metadata.Distribution.at(info).requires or ()
    assert len([name for name in requires if "extra ==" not in name]) <= 7

    quick = ("--knob", "omp_threads=1,2", "--trials", "2", "--no-confirm", "--", "true")
    for words, code, said in (
        (["--version"], 0, "tune "),
        (["doctor", "--launcher", "none", "--", "true"], 0, "optuna"),
        ([], 2, "`tune demo`"),
        (["-n", "1", "--launcher", "none", "--objective", "wall", *quick], 0, "Study true"),
        (["report", "-o", "report.html"], 0, "wrote report.html"),
        (["dashboard"], 2, "next: pip install 'runtime-tuner[dashboard]'"),
    ):
        done = captured([place / "bin" / "runtime-tuner", *words], tmp_path, os.environ)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done
