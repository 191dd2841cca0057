"""The commands of the guide to comparisons, on a program that becomes slower."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides import TRAIN, blocks
from tests.light_trainer import captured
from tests.marked import eventually
from tuner.store import Store

pytestmark = [pytest.mark.system, pytest.mark.slow]

TUNE = Path(sys.executable).parent / "tune"
ENV = {**os.environ, "PATH": f"{TUNE.parent}:{os.environ['PATH']}"}
SHORT = "--mpi-procs 1 --trials 1 --knob omp_threads=1,2 --"


#: Its steps compute, and its clock goes on in pauses. A program that sleeps is compared in turn.
COMPUTES = (
    TRAIN.replace("done = int(", "begun_s = time.monotonic()\ndone = int(", 1)
    .replace(
        "time.sleep(0.1)",
        "end_s = time.thread_time() + 0.1\n    while time.thread_time() < end_s: pass",
    )
    .replace("0.1 * done", "time.monotonic() - begun_s")
)


def make(folder: Path, length: int) -> Path:
    """A program of so many steps."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "length").write_text(str(length))
    return folder


def run(folder: Path, commands: str, more: str = SHORT) -> subprocess.CompletedProcess[str]:
    script = "set -e\n" + commands.replace("-- python", f"{more} python")
    return captured(["sh", "-c", script], folder, ENV)


def test_a_branch_that_is_slower_fails(tmp_path: Path) -> None:
    _, before, after = blocks("docs/how-to/compare.md")
    done = run(make(tmp_path, 3), before, f"--confirm none {SHORT}")
    assert done.returncode == 0, done.stderr
    slower = run(make(tmp_path, 6), after, f"--confirm none {SHORT}")
    assert slower.returncode == 6, slower.stdout + slower.stderr
    assert "worse: it takes 2 (" in slower.stdout
    assert slower.stdout.rstrip().endswith("; worse by more than 5 %")


def test_what_cannot_tell_is_launched_side_by_side(tmp_path: Path) -> None:
    # The figures of the studies do not depend on the machine: a launch of each cannot tell.
    folders = make(tmp_path / "main", 12), make(tmp_path / "branch", 16)
    commands, *_ = blocks("docs/how-to/compare.md")
    *studies, compare = commands.splitlines()
    # Without a confirmation there is a single launch of each.
    done = run(tmp_path, "\n".join(studies), f"--warm-ups 0 --confirm none {SHORT}")
    assert done.returncode == 0, done.stderr
    for folder in folders:
        (folder / "train.py").write_text(COMPUTES)

    argv, pipe = shlex.split(compare), subprocess.PIPE
    with subprocess.Popen(argv, cwd=tmp_path, env=ENV, text=True, stderr=pipe) as cut:
        eventually((tmp_path / "branch-again" / "0001").exists)
        cut.send_signal(signal.SIGINT)
        said = cut.communicate(timeout=60)[1]
    assert cut.returncode == 128 + signal.SIGINT, said
    assert "launches of both, kept as the studies main-again and branch-again" in said
    assert said.rstrip().endswith("tune: interrupted"), "the same command does not continue it"

    done = run(tmp_path, compare)
    assert done.returncode == 6, done.stdout + done.stderr
    assert re.search("best of main: [0-9]+ launches made side by side by", done.stdout), done.stdout
    assert done.stdout.rstrip().endswith("; worse by more than 5 %")
    with Store.open(f"sqlite:///{tmp_path / 'ci.db'}", create=False) as store:
        best = store.load("main").summary.best_setting
        made = [
            (record, name)
            for name in ("main", "branch")
            for record in store.launches(f"{name}-again")
        ]
        assert len(store.launches("main")) == 2, "the study itself stays as it was"
    assert {record.setting for record, name in made if name == "main"} == {best}
    sides = [record.outcome.side_by_side for record, _ in made]
    assert sum(side is not None and bool(side.slices) for side in sides) >= 4
