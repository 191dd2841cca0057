"""``tune exec``: what the command is given, and when it is started again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Tune
from tests.study_samples import hybrid, setting, study
from tuner.cli.exec import filled
from tuner.model import BASELINE


def test_placeholders_are_filled_or_left_out_with_their_option_and_other_braces_stay() -> None:
    argv = ("-j{omp_threads}", "{omp_threads}{m}", "{other}", "${HOME}", "{{omp_threads}}", "{}")
    data = study({BASELINE: 8.0, setting(omp_threads=2, iterator_workers=1): 3.0})
    assert filled(argv, data) == ("-j2", "2{m}", "{other}", "${HOME}", "{2}", "{}")
    argv = ("train", "-j", "{iterator_workers}", "--n={omp_threads}", "{other}", "x")
    assert filled(argv, study({BASELINE: 8.0})) == ("train", "{other}", "x")
    assert filled(("mpirun", "-n", "{ranks}"), hybrid()) == ("mpirun", "-n", "2")


@pytest.mark.system
def test_the_command_runs_with_the_setting_after_the_warnings(tune: Tune, database: Path) -> None:
    program = (
        "import os, sys; print('started', file=sys.stderr);"
        "print(os.environ['OMP_NUM_THREADS'], sys.argv[1:]); sys.exit(7)"
    )
    argv = (sys.executable, "-c", program, "-j{iterator_workers}")
    done = tune("exec", "--storage", str(database), "--", *argv)
    assert (done.code, done.out) == (7, "1 ['-j1']\n")
    warning, last = done.err.splitlines()
    assert last == "started"
    assert warning.startswith("tune: warning: the command does not get communicator=naive")
    assert "write {communicator} where" in warning


#: Ends by the signal in its first argument as often as there are letters in a file, and says
#: what it was given.
ENDS = """
import os, sys
print(sys.argv[3:], flush=True)
left = open(sys.argv[2]).read()
open(sys.argv[2], "w").write(left[1:])
if left:
    os.kill(os.getpid(), int(sys.argv[1]))
sys.exit(5)
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("ends", "tries", "code", "runs"),
    [("xx", "5", 5, 3), ("xx", "2", 137, 2), ("", "5", 5, 1)],
    ids=["until it ends by itself", "the limit", "its own failure is final"],
)
def test_a_command_that_a_signal_has_ended_is_started_again(
    tune: Tune, database: Path, tmp_path: Path, ends: str, tries: str, code: int, runs: int
) -> None:
    (tmp_path / "ends").write_text(ends)
    for name, age_s in (("snapshot_9", 60), ("snapshot_10", 30), ("snapshot_2", 90)):
        (tmp_path / name).touch()
        then_s = time.time() - age_s
        os.utime(tmp_path / name, (then_s, then_s))
    words = ("--tries", tries, "--resume-arg", "--resume snapshot_*", "--", sys.executable)
    argv = (*words, "-c", ENDS, "9", "ends")
    done = tune("exec", "--storage", str(database), *argv)
    assert done.code == code
    assert done.out.splitlines() == ["[]", *["['--resume', 'snapshot_10']"] * (runs - 1)]
    assert done.err.count("was ended from outside (exit code 137)") == runs - 1


@pytest.mark.system
def test_a_command_that_the_user_ends_is_not_started_again(database: Path) -> None:
    words = ("exec", "--storage", str(database), "--tries", "5", "--")
    argv = (str(Path(sys.executable).parent / "tune"), *words, "sh", "-c", "echo ready; sleep 100")
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    running.terminate()
    assert running.communicate()[0] == ""
    assert running.returncode == 143
