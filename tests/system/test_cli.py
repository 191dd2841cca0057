"""The whole tool as a process: real mpirun, real database, a real terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.light_trainer import MAIN, QUICK, command, environment, make_folder, tune

pytestmark = pytest.mark.system


def test_a_study_ends_with_its_result_and_the_next_commands(quick_study: Path) -> None:
    out = (quick_study / "first.out").read_text()
    for line in (
        r"Study quick: finished, 4 settings (measured|tried \(.*\)) in \d+ launches",
        r"[\d.]+ times faster than your defaults \(95 % ",
        r"the tuning took .*; a run as measured saves .*: break-even after ",
        "omp_threads=1",
        "  tune export quick --format sh -o job.sh",
    ):
        assert re.search(line, out), line


def test_progress_is_timed_lines_without_a_terminal(quick_study: Path) -> None:
    err = (quick_study / "first.err").read_text()
    assert "\x1b" not in err
    assert re.search(r"(?m)^\[0:\d\d\] - baseline: (stopped after )?[\d.]+ s", err)
    assert re.search(r"(?m)^\[0:\d\d\] 4/4 ", err)
    assert len(re.findall(r"- baseline \(confirmation\): ", err)) >= 3


def test_a_finished_study_is_shown_and_not_run_again(quick_study: Path) -> None:
    done = tune(quick_study, *QUICK, "--trials", "4", *command())
    first = (quick_study / "first.out").read_text()
    assert (done.returncode, done.stdout, done.stderr) == (0, first, "")
    done = tune(quick_study, *QUICK, "--trials", "4", "--json", "-q", *command())
    document = json.loads(done.stdout)
    assert (document["schema"], document["state"]) == ("tuner.result/1", "finished")
    assert (document["verdict"], document["finding"]["claim"]) == ("faster", "faster")
    assert document["finding"]["low"] > 1
    assert document["export"] == document["best"]["setting"]
    assert done.stderr == ""


def test_show_studies_and_exec_read_the_study(quick_study: Path) -> None:
    result = json.loads(tune(quick_study, "show", "--json").stdout)["result"]
    assert result["study"] == "quick"
    assert json.loads(tune(quick_study, "studies", "--json").stdout)["studies"][0]["trials"] == 4
    program = "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.argv[1])"
    done = tune(quick_study, "exec", "--", sys.executable, "-c", program, "{iterator_workers}")
    best = result["best"]["setting"]
    assert done.stdout.split() == [str(best["omp_threads"]), str(best["iterator_workers"])]


def test_a_dry_run_prints_the_launches_and_makes_nothing(tmp_path: Path) -> None:
    make_folder(tmp_path)
    done = tune(tmp_path, *QUICK, "--dry-run", *command())
    assert done.returncode == 0
    assert "OMP_NUM_THREADS=1" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    env = environment(tmp_path)
    subprocess.run(["sh", "-e"], input=done.stdout, text=True, cwd=tmp_path, env=env, check=True)
    assert (tmp_path / "OUTPUTS" / "1" / "out" / "log").is_file()
    guess, *_, defaults = sorted((tmp_path / "OUTPUTS").glob("*/out/got"))
    assert json.loads(guess.read_text())[0] in (1, 2)
    assert json.loads(defaults.read_text()) == [4, 6]


def test_on_a_terminal_the_view_is_redrawn(tmp_path: Path) -> None:
    make_folder(tmp_path)
    args = (*QUICK, "--trials", "2", "--no-confirm", *command("--scale", "4"))
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *args],
        cwd=tmp_path,
        env=environment(tmp_path, COLUMNS="100", LINES="40"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 65536):
                written += data
        except OSError:  # the other side is closed
            os.close(ours)
    assert running.returncode == 0
    text = written.decode()
    assert "of at most 2 settings" in text
    assert "your environment as it is" in text
    assert "\x1b[1A" in text or "\x1b[2K" in text
    assert "\x1b[1m" in text  # a heading
