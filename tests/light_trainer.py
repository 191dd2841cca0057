"""A trainer that takes no time and no core, and ``tune`` as a process, for the system tests."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Rank 0 writes a LogReport file; best are one thread and two workers. It notes what it got.
TRAINER = """
import argparse, json, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("-j", type=int, default=6)
parser.add_argument("--scale", type=float, default=1.0)
args = parser.parse_args()
threads = int(os.environ.get("OMP_NUM_THREADS", 4))
if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")) == "0":
    os.makedirs(args.out, exist_ok=True)
    log, start = [], time.monotonic()
    for iteration in range(1, 6):
        time.sleep(0.01 * args.scale * (abs(threads - 1) + abs(args.j - 2) + 1))
        log.append({"iteration": iteration, "elapsed_time": time.monotonic() - start})
        with open(os.path.join(args.out, "draft"), "w") as file:
            json.dump(log, file)
        os.replace(os.path.join(args.out, "draft"), os.path.join(args.out, "log"))
    with open(os.path.join(args.out, "got"), "w") as file:
        json.dump([threads, args.j], file)
"""

#: The options of a study that is over in a few seconds.
QUICK = ("-n", "2", "--name", "quick", "--knob", "iterator_workers=1..3", "--knob",
         "omp_threads=1..2", "--warm-ups", "0")  # fmt: skip

MAIN = "import sys; from tuner.cli.main import main; sys.exit(main())"


def command(*extra: str) -> tuple[str, ...]:
    """What stands after ``--``."""
    return ("--", sys.executable, "train.py", "--out", "{out}", "-j", "{iterator_workers}", *extra)


def make_folder(folder: Path) -> Path:
    """A folder with the trainer in it."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(TRAINER)
    return folder


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """The environment for ``tune`` in a folder: a lock and a database of its own."""
    names = ("OMP_NUM_THREADS", "TUNE_STORAGE", "TUNE_MPIRUN", "TUNE_DEBUG", "NO_COLOR")
    env = {name: value for name, value in os.environ.items() if name not in names}
    ours = {"TUNE_LOCK_DIR": str(folder), "TERM": "xterm-256color"}
    return env | ours | changes


def captured(
    argv: Sequence[str | Path],
    folder: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
    umask: int = -1,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in a folder, and keep what it prints."""
    return subprocess.run(
        argv,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        umask=umask,
    )


def tune(
    folder: Path, *args: str, umask: int = -1, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run ``tune`` to its end in a folder."""
    argv, env = [sys.executable, "-c", MAIN, *args], environment(folder, **changes)
    return captured(argv, folder, env, timeout_s=300, umask=umask)


def python_script(code: str) -> str:
    """A script that runs `code` with this interpreter, whose path may hold a space.

    A ``#!`` line cannot name such a path, so ``sh`` starts it: the second and third lines are
    one string to Python (pip writes its scripts in the same way).
    """
    return f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n{code}"
