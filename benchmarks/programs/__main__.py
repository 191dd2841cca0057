"""Tunes the shipped trainers and real programs that nobody here wrote, and makes the table.

    python -m benchmarks.programs [NAME ...] [--trials 20] [--markdown docs/programs.md]

Debian's programs are used where they are installed; the examples of others where a checkout is
named (`--chainer`, `--dlrm`). Nothing is downloaded: what is missing is said, with the command that
gets it. Inputs, databases and results lie in build/programs/; a study that is there is continued.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.programs import catalogue, table
from benchmarks.programs.catalogue import PROGRAMS, Program
from benchmarks.programs.inputs import Checkouts

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "programs"
#: In a study's folder: what `tune export` and `tune explain` said of it.
KEPT = ("result.json", "explained.json")
#: So many settings even where going on is expected to gain little, but not for ever.
_FAR = ("--min-gain", "0.0001%", "--budget", "10m")
TUNE = Path(sys.executable).with_name("tune")


def main(argv: Sequence[str] | None = None) -> int:
    """Tune, print, and write; 1 where a program that is there could not be tuned."""
    options = _options(argv)
    checkouts = Checkouts(
        options.chainer, options.chainer_python, options.dlrm, options.dlrm_python
    )
    chosen = [each for each in PROGRAMS if not options.names or each.study in options.names]
    failed = tune_all(chosen, checkouts, options.trials)
    kept = [(each, _kept(each)) for each in PROGRAMS]
    documents = [(each, document) for each, document in kept if document is not None]
    rows = [table.row(each.title, *document) for each, document in documents]
    print(table.as_text(rows))
    if options.markdown is not None and documents:
        study = documents[0][1][0]["study"]
        machine = f"{study['machine']['cpu_model']}, {study['machine']['cores']} cores"
        page = table.as_markdown(rows, machine, options.trials)
        options.markdown.write_text(page)
    return 1 if failed else 0


def tune_all(programs: Sequence[Program], checkouts: Checkouts, trials: int) -> list[str]:
    """Tune those that are there, one after the other; the names of those that failed."""
    failed = []
    for program in programs:
        lacks = catalogue.missing(program, checkouts)
        print(f"== {program.title}", flush=True)
        for lack in lacks:
            print(f"left out, missing: {lack}")
        if not lacks and not tune(program, checkouts, trials):
            failed.append(program.study)
    return failed


def tune(program: Program, checkouts: Checkouts, trials: int) -> bool:
    """Make the input, run the study, keep its result; whether that went well."""
    folder = PLACE / program.study
    folder.mkdir(parents=True, exist_ok=True)
    environ = catalogue.environment(program, checkouts, os.environ)
    storage = ["--storage", "tune.db"]
    study = [str(TUNE), "--study", program.study, "--name", program.study, *_FAR]
    study += [word for name in program.knobs for word in ("--knob", name)]
    asked = [["export", program.study, "--format", "json"], ["explain", program.study, "--json"]]
    try:
        program.prepare(folder, checkouts)
        command = [*study, "--trials", str(trials), *storage]
        subprocess.run(command, cwd=folder, env=environ, check=True)
        done = [
            subprocess.run([TUNE, *words, *storage], cwd=folder, check=True, capture_output=True)
            for words in asked
        ]
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{program.title}: {error}", file=sys.stderr)
        return False
    for name, each in zip(KEPT, done, strict=True):
        (folder / name).write_bytes(each.stdout)
    return True


def _kept(program: Program) -> list[dict[str, Any]] | None:
    """What an earlier run or this one found: the export and the explanation."""
    try:
        return [json.loads((PLACE / program.study / name).read_text()) for name in KEPT]
    except OSError:
        return None


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.programs", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    names = [each.study for each in PROGRAMS]
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)} [all]")
    add("--trials", type=int, default=20, help="settings of each study [20]")
    add("--chainer", type=Path, metavar="FOLDER", help="a checkout of Chainer")
    add("--chainer-python", type=Path, metavar="FILE", help="its interpreter, with NumPy 1.26")
    add("--dlrm", type=Path, metavar="FOLDER", help="a checkout of facebookresearch/dlrm")
    add("--dlrm-python", type=Path, metavar="FILE", help="its interpreter, with PyTorch")
    add("--markdown", type=Path, metavar="FILE", help="write the table there: docs/programs.md")
    options = parser.parse_args(argv)
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
