"""``tune init`` on a real terminal: its questions, the file, and what is left of a ``--help``."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.light_trainer import environment, tune
from tests.marked import marked
from tuner.config import study_file

pytestmark = pytest.mark.system

#: ``tune init`` with a limit for the program's ``--help`` that a test can wait for.
MAIN = """
import sys
from tuner.cli import init, main
init.HELP_LIMIT_S = float(sys.argv.pop(1))
sys.exit(main.main())
"""

TRAIN = """
import argparse, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=32)
parser.add_argument("-j", "--workers", type=int, default=0, help="loader workers")
parser.add_argument("--output-dir", type=pathlib.Path)
options = parser.parse_args()
options.output_dir.joinpath("log").write_text("[]")
"""


def on_terminal(
    folder: Path, *args: str, answers: Sequence[str] = (), limit_s: float = 60, **more: str
) -> tuple[int, str]:
    """``tune init …`` on a terminal, an answer for each question; its exit code and the screen."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, str(limit_s), "init", *args],
        cwd=folder,
        env=environment(folder, TERM="dumb", **more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        screen, left = b"", list(answers)
        try:
            while data := os.read(ours, 65536):
                screen += data
                is_quiet = not select.select([ours], [], [], 0.1)[0]
                if is_quiet and screen.endswith(b": ") and left:
                    os.write(ours, left.pop(0).encode() + b"\n")
        except OSError:  # the other side is closed
            os.close(ours)
    assert left == []
    return running.returncode, screen.decode().replace("\r", "")


def test_enter_is_enough_for_a_study_that_runs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    typed = f"mpirun -n 3 {sys.executable} train.py -j 2"
    code, screen = on_terminal(tmp_path, answers=[typed, ""])
    assert code == 0, screen
    assert f"Run `{sys.executable} train.py -j 2 --help` to find its options? [Y/n]" in screen
    assert "  --workers {iterator_workers}\n  --output-dir {out}\n" in screen
    last = screen.splitlines()[-1]
    assert last == "wrote tune.toml; next: tune --dry-run, then: tune"
    shown = tune(tmp_path, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "train.py -j 1 --output-dir OUTPUTS/1/out" in shown.stdout
    assert "train.py -j 2 --output-dir OUTPUTS/" in shown.stdout.partition("# defaults")[2]
    study = study_file.study_of(study_file.load(tmp_path / "tune.toml"))
    assert (study.option("mpi_procs"), study.objective.kind) == (3, "wall")


def test_a_program_without_a_help_is_named_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.fork()\ntime.sleep(300)"
    )
    mark = os.urandom(16).hex()
    words = ("--", "mpirun", "-n", "2", sys.executable, "train.py")
    code, screen = on_terminal(tmp_path, *words, answers=[""], limit_s=0.5, OF_TEST=mark)
    assert code == 0, screen
    assert "does not end within 0.5 s" in screen
    assert marked(mark, "OF_TEST") == []
    assert "train.py" in (tmp_path / "tune.toml").read_text()
