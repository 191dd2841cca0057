"""What a user may type or meet, and the one error that says what to do: value, place, next step."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Tune
from tests.light_trainer import MAIN, environment

#: What cannot be a file, and what is said of it.
BAD_PATHS = {
    "a" * 300: "File name too long",
    "loop/x": "Too many levels of symbolic links",
    os.fsdecode(b"b\xff"): "holds bytes that are no UTF-8",
}

#: The commands that take a path; PATH stands for it.
TAKES_A_PATH = (
    ("show", "--storage", "PATH"),
    ("dashboard", "--storage", "PATH"),
    ("--study", "PATH", "--dry-run"),
    ("--hostfile", "PATH", "--dry-run"),
    ("--mpirun", "PATH", "--dry-run"),
    ("export", "--storage", "DATABASE", "--format", "sh", "-o", "PATH"),
    ("init", "PATH"),
    ("--objective", "wall", "--dry-run", "--", "./PATH"),
    ("--objective", "wall", "--run-dir", "PATH", "--", "true"),
)


def test_a_path_that_cannot_be_one_is_named(tune: Tune, database: Path) -> None:
    Path("loop").symlink_to("loop")
    for template in TAKES_A_PATH:
        for path, said in BAD_PATHS.items():
            words = (word.replace("DATABASE", str(database)) for word in template)
            done = tune(*(word.replace("PATH", path) for word in words))
            assert done.code == 2, (template, done.err)
            assert said in done.err and "next: " in done.err


def test_the_database_of_another_program_is_left_as_it_is(tune: Tune, tmp_path: Path) -> None:
    path = tmp_path / "contacts.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE contacts (name TEXT)")
    before = path.read_bytes()
    start = ("--objective", "wall")
    for words in (("show",), start, (*start, "--dry-run")):
        done = tune(*words, "--storage", str(path), *(() if words[0] == "show" else ("--", "true")))
        assert done.code == 2, done.err
        assert "is of another program: it has the table 'contacts'" in done.err
    assert path.read_bytes() == before


def test_a_dry_run_looks_at_the_database_and_makes_none(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ("--objective", "wall", "--dry-run", "--storage")
    for place, said in (("file/x.db", "Not a directory"), (".", "is a folder"), ("new/x.db", "")):
        done = tune(*words, str(tmp_path / place), "--", "true")
        assert said in done.err and done.code == (2 if said else 0)
    assert not (tmp_path / "new").exists()


# --- what only a process of its own can meet ------------------------------------------------------

#: A script in which TUNE is run, its exit code, and what is on stderr.
PROCESSES = {
    "a lost folder": ('mkdir a; cd a; rmdir ../a; "$@" show', 2, "current folder cannot be used"),
    "a full disk for the result": ('exec "$@" knobs > /dev/full', 2, "No space left on device"),
    "a closed stream": ('exec "$@" show 2>&-', 2, ""),
    "a full disk for errors": ('exec "$@" knobs 2> /dev/full', 0, ""),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_that_lacks_something_says_so(tmp_path: Path, name: str) -> None:
    script, code, said = PROCESSES[name]
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-c", MAIN],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
