"""How fast ``tune`` answers, as a ratio to the bare interpreter.

    python benchmarks/cli_startup.py [--rounds 30]

``tune --help``, completion of an option, of a command and of a study's name, and
``python -c pass`` run in alternation, so that all see the same machine. The ratio of the medians
is to be at most 5: click alone is 3.8.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TARGET = 5.0


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=30)
    rounds = options.parse_args().rounds
    tune = str(Path(sys.executable).with_name("tune"))
    with tempfile.TemporaryDirectory() as folder:
        commands = cases(tune, make_database(Path(folder)))
        times_s: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, (argv, env) in commands.items():
                times_s[name].append(wall_s(argv, env))
    report(times_s, rounds)


def cases(tune: str, database: Path) -> dict[str, tuple[Sequence[str], Mapping[str, str]]]:
    """Each command with the variables it needs; the first is the measure of all."""

    def complete(words: str, place: int) -> Mapping[str, str]:
        return {
            "_TUNE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(place),
            "TUNE_STORAGE": str(database),
        }

    return {
        "python -c pass": ((sys.executable, "-c", "pass"), {}),
        "tune --help": ((tune, "--help"), {}),
        "tune --tri<TAB>": ((tune,), complete("tune --tri", 1)),
        "tune sh<TAB>": ((tune,), complete("tune sh", 1)),
        "tune show <TAB>": ((tune,), complete("tune show ", 2)),
    }


def make_database(folder: Path) -> Path:
    """A database with one study, as completion reads it."""
    import sqlite3

    path = folder / "tune.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE studies (study_id INTEGER, study_name TEXT);
            CREATE TABLE study_user_attributes (study_id INTEGER, key TEXT, value_json TEXT);
            INSERT INTO studies VALUES (1, 'mnist');
            INSERT INTO study_user_attributes
                VALUES (1, 'tune:state', '{"updated_at": "2026-01-01T00:00:00+00:00"}');
            """
        )
    database.close()
    return path


def wall_s(argv: Sequence[str], env: Mapping[str, str]) -> float:
    """How long a command takes from start to end."""
    start_s = time.perf_counter()
    subprocess.run(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - start_s


def report(times_s: Mapping[str, Sequence[float]], rounds: int) -> None:
    """Print the ratios to the first row."""
    medians_s = {name: statistics.median(each) for name, each in times_s.items()}
    bare_s = next(iter(medians_s.values()))
    print(f"{'':18}{'median, s':>11}{'ratio':>8}{'target':>8}")
    for name, median_s in medians_s.items():
        ratio = median_s / bare_s
        verdict = "" if ratio == 1 else "   met" if ratio <= TARGET else "   missed"
        print(f"{name:18}{median_s:11.4f}{ratio:8.2f}{TARGET:8.1f}{verdict}")
    print(f"{rounds} rounds, in alternation")


if __name__ == "__main__":
    main()
