"""How fast ``tune`` answers, as a ratio to the bare interpreter.

    python -m benchmarks.cli_startup

``tune --help``, completion of an option, of a command and of a study's name, and
``python -c pass`` run in alternation, so that all see the same machine. The ratio of the medians
is to be at most 5: click alone is 3.8.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.timing import seconds

TARGET, ROUNDS = 5.0, 30

#: A database with one study, as completion reads it.
DATABASE = """
CREATE TABLE studies (study_id INTEGER, study_name TEXT);
CREATE TABLE study_user_attributes (study_id INTEGER, key TEXT, value_json TEXT);
INSERT INTO studies VALUES (1, 'mnist');
INSERT INTO study_user_attributes
    VALUES (1, 'tune:state', '{"updated_at": "2026-01-01T00:00:00+00:00"}');
"""

#: What is completed, and the place of its last word.
COMPLETED = {"tune --tri": 1, "tune sh": 1, "tune show ": 2}


def main() -> None:
    """Measure and print."""
    tune = str(Path(sys.executable).with_name("tune"))
    commands = {
        "python -c pass": ([sys.executable, "-c", "pass"], {**os.environ}),
        "tune --help": ([tune, "--help"], {**os.environ}),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tune.db"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(DATABASE)
        shell = {**os.environ, "_TUNE_COMPLETE": "bash_complete", "TUNE_STORAGE": path}
        for words, place in COMPLETED.items():
            typed = {"COMP_WORDS": words, "COMP_CWORD": str(place)}
            commands[f"{words}<TAB>"] = ([tune], shell | typed)
        times_s: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, (argv, environ) in commands.items():
                times_s[name].append(seconds(argv, environ))
    medians_s = {name: statistics.median(each) for name, each in times_s.items()}
    print(f"{'':18}{'median, s':>11}{'ratio':>8}{'target':>8}")
    for name, median_s in medians_s.items():
        ratio = median_s / medians_s["python -c pass"]
        verdict = "" if ratio == 1 else "   met" if ratio <= TARGET else "   missed"
        print(f"{name:18}{median_s:11.4f}{ratio:8.2f}{TARGET:8.1f}{verdict}")
    print(f"{ROUNDS} rounds, in alternation")


if __name__ == "__main__":
    main()
