"""``tune exec --first-tune``: a job is tuned once, then known; whatever fails, it runs as typed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import Tune

pytestmark = pytest.mark.system

#: Takes long without CHUNK=8, and says what it was given.
JOB = """
import os, sys, time
chunk = int(os.environ.get("CHUNK", "1"))
time.sleep(0.4 / chunk)
print(chunk, *sys.argv[1:], sys.stdin.read().strip())
sys.exit(7 if "--fail" in sys.argv else 0)
"""
STUDY = """
command = "{python} job.py --steps 1"
objective = { kind = "wall" }
compare = "in-turn"
knobs.chunk = { env = "CHUNK", values = [1, 8], baseline = 1 }
"""


class Ended(NamedTuple):
    code: int
    out: list[str]  # its words
    lines: list[str]  # of stderr


Exec = Callable[..., Ended]
TUNE = str(Path(sys.executable).with_name("tune"))


@pytest.fixture
def job(tmp_path: Path) -> Exec:
    """Runs a job by ``tune exec``, in a folder with a study file for it."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "tune.toml").write_text(STUDY)

    def run(*words: str, options: tuple[str, ...] = (), text: str = "") -> Ended:
        command = [
            TUNE,
            "exec",
            "--first-tune",
            "40s",
            *options,
            "--",
            sys.executable,
            "job.py",
            *words,
        ]
        done = subprocess.run(
            command, cwd=tmp_path, input=text, capture_output=True, text=True, check=False
        )
        return Ended(done.returncode, done.stdout.split(), done.stderr.splitlines())

    return run


def test_a_job_is_tuned_once_and_a_job_like_it_starts_with_its_setting(
    job: Exec, tmp_path: Path
) -> None:
    first = job("--steps", "9")
    assert (first.code, first.out) == (0, ["8", "--steps", "9"])
    assert first.lines[0].startswith("tune: no setting is known for this job")
    verdict = first.lines[-1]
    assert "CHUNK=8" in verdict or "chunk=8" in verdict
    assert "times faster than the line as typed" in verdict
    known = job("--steps", "9", text="input")
    assert (known.code, known.out, known.lines) == (0, ["8", "--steps", "9", "input"], [verdict])
    like = job("--steps", "9", "--fail")
    assert (like.code, like.out) == (7, ["8", "--steps", "9", "--fail"])
    (line,) = like.lines
    assert "of a job like it (it had other arguments; --fresh tunes this one)" in line
    # The file that a centre ships, and its folder, may be read-only, also to SQLite's second file.
    (tmp_path / "studies" / "tune.db").chmod(0o444)
    (tmp_path / "studies").chmod(0o555)
    assert job("--steps", "9").lines == [verdict]


def no_database(folder: Path) -> None:
    (folder / "studies").mkdir()
    (folder / "studies" / "tune.db").write_text("none")


def no_program(folder: Path) -> None:
    (folder / "tune.toml").write_text(STUDY.replace("job.py", "other.py"))


def no_study(folder: Path) -> None:
    (folder / "tune.toml").write_text("trials = 'many'")


def no_launch_works(folder: Path) -> None:
    (folder / "tune.toml").write_text(STUDY.replace("--steps 1", "--fail"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (no_database, "tune.db cannot be read: file is not a database"),
        (no_program, "other.py"),
        (no_study, "trials: must be a whole number"),
        (no_launch_works, "exit code 7"),
    ],
)
def test_whatever_fails_in_tune_the_job_runs_as_it_stands(
    job: Exec, tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(tmp_path)
    done = job("--steps", "9")
    assert (done.code, done.out) == (0, ["1", "--steps", "9"])
    assert done.lines[-1].startswith("tune: the job runs as it stands")
    assert why in done.lines[-1]


@pytest.mark.parametrize(
    ("pause", "limit", "why"),
    [
        ("5", "2s", "no launch ended within 2 s; try --fresh --short '--epochs 1'"),
        pytest.param(
            *("3", "15s", "nothing was proven within 15 s; for another try: --fresh"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_time_for_tuning_is_spent_once(
    job: Exec, tmp_path: Path, pause: str, limit: str, why: str
) -> None:
    (tmp_path / "job.py").write_text(JOB.replace("0.4 / chunk", pause))
    first = job(options=("--first-tune", limit))
    assert (first.code, first.out) == (0, ["1"])
    assert first.lines[-1].startswith("tune: the job runs as it stands, by study ")
    assert first.lines[-1].endswith(why)
    assert job().lines == [first.lines[-1]]


def test_a_locked_database_is_not_an_empty_one(job: Exec, tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    with closing(sqlite3.connect(tmp_path / "studies" / "tune.db")) as database:
        database.execute("CREATE TABLE studies (a)")
        database.execute("BEGIN EXCLUSIVE")
        (line,) = job().lines
    assert line.startswith("tune: the job runs as it stands: the database studies/tune.db cannot")
    assert line.endswith("be read: database is locked")


def test_a_job_runs_though_nobody_reads_stderr(job: Exec, tmp_path: Path) -> None:
    no_study(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    argv = [TUNE, "exec", "--first-tune", "9s", "--", sys.executable, "job.py", "a"]
    done = subprocess.run(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writer, check=False)
    os.close(writer)
    assert (done.returncode, done.stdout.split()) == (0, [b"1", b"a"])


def test_a_missing_program_is_said_as_a_shell_says_it(tune: Tune) -> None:
    done = tune("exec", "--first-tune", "9s", "--", "no-such-program")
    assert done == (127, "", "tune: no-such-program: command not found\n")


def test_what_is_known_of_a_job_holds_no_secret(job: Exec, tmp_path: Path) -> None:
    no_launch_works(tmp_path)
    job("--api-key", "sk-not-a-secret-4711", options=("--first-tune", "5s"))
    assert b"4711" not in (tmp_path / "studies" / "tune.db").read_bytes()
