"""The whole tool as a process: real mpirun, real database, signals and terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.json_schema import check
from tests.light_trainer import MAIN, QUICK, command, environment, make_folder, tune
from tuner.store.store import Store

pytestmark = pytest.mark.system


def test_a_study_shows_its_progress_its_result_and_the_next_commands(quick_study: Path) -> None:
    out, err = ((quick_study / name).read_text() for name in ("first.out", "first.err"))
    for words in ("Study quick: finished, 4 settings ", "omp_threads=1", "  tune export quick "):
        assert words in out  # the rest is in the snapshots
    assert "\x1b" not in err
    assert re.search(r"(?m)^\[0:\d\d\] - baseline: (stopped after )?[\d.]+ s", err)
    assert re.search(r"(?m)^\[0:\d\d\] 4/4 ", err)
    # Beside others that want all cores a launch waits, and they are compared in turn.
    assert re.search(r"side by side: .*baseline .*; \d+ slices|in turn, not side by side: ", err)
    assert re.search(r"(side by side|in turn): \d+ pairs, best [\d.]+ times faster", err)


def test_a_finished_study_is_shown_and_not_run_again(quick_study: Path) -> None:
    done = tune(quick_study, *QUICK, "--trials", "4", *command())
    first = (quick_study / "first.out").read_text()
    assert (done.returncode, done.stdout) == (0, first)
    assert "nothing is launched" in done.stderr
    done = tune(quick_study, *QUICK, "--trials", "4", "--json", "-q", *command())
    document = json.loads(done.stdout)
    check(document)
    assert (document["schema"], document["state"]) == ("tuner.result/1", "finished")
    assert (document["verdict"], document["finding"]["claim"]) == ("faster", "faster")
    assert document["finding"]["low"] > 1
    # Handed over is the best setting, less what makes no difference to it.
    assert document["export"].items() <= document["best"]["setting"].items()
    assert done.stderr == ""
    contributions = json.loads(tune(quick_study, "show", "--json").stdout)["contributions"]
    assert document["export"].keys() <= {each["knob"] for each in contributions if each["text"]}
    assert json.loads(tune(quick_study, "studies", "--json").stdout)["studies"][0]["trials"] == 4


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


WALL = ("-n", "1", "--no-confirm", "--objective", "wall")
SLEEP = ("--knob", "k=1,2", "--baseline", "k=1", "--", "sleep", "0.{k}")


def test_a_command_prepares_each_launch_and_leaves_nothing(tmp_path: Path) -> None:
    args = ("--name", "s", "--prepare", "sh prepare.sh", *WALL, *SLEEP)
    script = tmp_path / "prepare.sh"
    script.write_text("echo to fail; exit 3")
    done = tune(tmp_path, *args)
    assert done.returncode == 3
    assert "--prepare failed: exit code 3" in done.stderr
    (said,) = re.findall(r"read (\S+), or", done.stderr)
    assert Path(said).read_text() == "to fail\n"
    script.write_text("sleep 300 & echo $! >> pids")
    assert tune(tmp_path, *args).returncode == 0
    pids = (tmp_path / "pids").read_text().split()
    shown = json.loads(tune(tmp_path, "export", "--format", "json").stdout)
    assert len(pids) == len(shown["launches"]) > 3
    assert not any(Path("/proc", pid).exists() for pid in pids)


#: Writes where it runs, as examples do.
WRITER = """
import json, pathlib, sys, time
text = pathlib.Path(sys.argv[1]).read_text()
time.sleep(float(sys.argv[2]))
pathlib.Path("result").mkdir()
entry = {"iteration": 1, "elapsed_time": float(sys.argv[2]), "said": text}
pathlib.Path("result/log").write_text(json.dumps([entry]))
"""


def test_a_program_that_writes_where_it_runs_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "writer.py").write_text(WRITER)
    (tmp_path / "said").write_text("hello")
    words = ("python", "writer.py", "./said", "0.{k}")
    options = ("-n", "1", "--no-confirm", "--run-in-out", "--log", "result/log")
    knob = ("--knob", "k=1,2", "--baseline", "k=2")
    done = tune(tmp_path, *options, *knob, "--", sys.executable, *words[1:])
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "result").exists()
    assert tune(tmp_path, "export", "-o", "job.sh").returncode == 0
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    subprocess.run(["sh", "job.sh", "out"], cwd=tmp_path, env=env, check=True)
    (entry,) = json.loads((tmp_path / "out/result/log").read_text())
    assert (entry["elapsed_time"], entry["said"]) == (0.1, "hello")


@pytest.fixture(scope="module")
def exported(quick_study: Path) -> Path:
    for name in ("job.sh", "best.json"):
        assert tune(quick_study, "export", "-o", name).returncode == 0
    return quick_study


def test_the_script_trains_with_the_best_setting_and_little_of_the_environment(
    exported: Path,
) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(exported)}
    best = json.loads((exported / "best.json").read_text())["best"]["setting"]
    assert "task_wrapper" not in (exported / "job.sh").read_text()
    subprocess.run(["./job.sh", "res ult"], cwd=exported, env=env, check=True)
    got = json.loads((exported / "res ult" / "got").read_text())
    assert got == [best["omp_threads"], best["iterator_workers"]]
    assert len(json.loads((exported / "res ult" / "log").read_text())) == 5


def test_the_script_is_clean_under_shellcheck(exported: Path, require_program: object) -> None:
    assert callable(require_program)
    path = require_program("shellcheck")
    subprocess.run([path, "--shell=sh", "job.sh"], cwd=exported, check=True)


# --- the number of ranks ---------------------------------------------------------------------


def test_the_best_number_of_ranks_is_found_and_started_by_the_script(tmp_path: Path) -> None:
    text = """import os; print("took", 0.1 * int(os.environ["OMPI_COMM_WORLD_SIZE"]))"""
    (tmp_path / "program.py").write_text(text)
    knobs = ("-n", "1..4", "--baseline", "ranks=2", "--knob", "omp_threads=1")
    figure = ("--objective", "pattern:took ([0-9.]+)", "--unit", "s")
    done = tune(tmp_path, *knobs, *figure, "--json", "-q", "--", sys.executable, "program.py")
    document = json.loads(done.stdout)
    assert (document["verdict"], document["best"]["setting"]["ranks"]) == ("faster", 1), done.stderr
    assert tune(tmp_path, "export", "-o", "job.sh").returncode == 0
    job = subprocess.run(["sh", "job.sh"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert job.stdout == "took 0.1\n"


# --- tune scale --------------------------------------------------------------------------------

#: A part of the work is shared by the ranks. It is counted by the CPU time that it takes.
PROGRAM = """
import os, time
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE", "1")))
while time.process_time() < 0.1 + 0.3 / ranks:
    pass
print("took", 0.1 + 0.3 / ranks)
"""

COMMAND = ("--", sys.executable, "program.py")
SCALE = ("scale", "-n", "2", "--storage", "s.db")
FIXED = (*SCALE, "--objective", "wall", "--setting", "omp_threads=1", "--rounds", "3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def launches(folder: Path, *studies: str) -> list[int]:
    with Store.open(f"sqlite:///{folder / 's.db'}", create=False) as store:
        return [len(store.launches(name)) for name in studies]


def test_a_fixed_setting_is_launched_by_pairs_and_nothing_is_measured_twice(folder: Path) -> None:
    done = tune(folder, *FIXED, "--price-per-hour", "3.6", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^2 ranks: .*, \d pairs side by side\)$", done.stdout), done.stdout
    studies = ("program-1x1-fixed", "program-1x2-fixed")
    before = launches(folder, *studies)
    again = tune(folder, *FIXED, "--price-per-hour", "3.6", "--json", "-q", *COMMAND)
    assert (again.returncode, again.stderr) == (0, "")
    document = json.loads(again.stdout)
    check(document)
    assert document["schema"] == "tuner.scale/1"
    first, second = document["layouts"]
    assert [first["study"], second["study"]] == list(studies)
    assert first["by_pairs"] is None
    pairs = second["by_pairs"]["pairs"]
    assert second["by_pairs"] == {"study": studies[0], "pairs": pairs, "is_side_by_side": True}
    assert launches(folder, *studies) == before == [1 + pairs] * 2, "a warm-up and the pairs"


@pytest.mark.slow
def test_each_layout_is_tuned_by_a_study_of_its_own(folder: Path) -> None:
    options = ("--knob", "omp_threads=1..2", "--trials", "2", "--no-confirm", "--live", "off")
    figure = ("--objective", "pattern:took ([0-9.]+)", "--unit", "s")
    done = tune(folder, *SCALE, *figure, *options, "--name", "job", *COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^2 ranks: 1\.60 times faster than 1 \(", done.stdout), done.stdout
    assert min(launches(folder, "job-1x1", "job-1x2")) >= 3
    again = launches(folder, "job-1x1-again", "job-1x2-again")
    assert again[0] == again[1] >= 3, "a warm-up and the pairs"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--setting", "omp_thread=1"), "--setting omp_thread: nothing carries it to the program"),
        (("-n", "1"), "there is only one layout"),
    ],
)
def test_a_mistake_is_named_before_anything_starts(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    done = tune(folder, *FIXED, *words, *COMMAND)
    assert done.returncode == 2
    assert f"error: {said}" in done.stderr
    assert not (folder / "s.db").exists()


# --- however it is ended: it ends in order, and keeps all ---------------------------------------


def start(folder: Path, *, ignored: Sequence[str] = (), **streams: Any) -> subprocess.Popen[bytes]:
    """A study whose only launch waits; signals are ignored as ``nohup`` does it."""
    words = ("-n", "1", "--name", "s", "--objective", "wall", "--knob", "omp_threads=1", "--")
    program = ("sh", "-c", "touch $0/runs; exec sleep 300", str(folder))
    trap = f"trap '' {' '.join(ignored)}; " if ignored else ""
    started = subprocess.Popen(
        ["sh", "-c", f'{trap}exec "$0" -c "$@"', sys.executable, MAIN, *words, *program],
        cwd=folder,
        env=environment(folder),
        **streams,
    )
    while not (folder / "runs").exists():
        assert started.poll() is None
        time.sleep(0.05)
    return started


def test_a_hangup_ends_no_study_under_nohup(tmp_path: Path) -> None:
    study = start(tmp_path, ignored=("HUP", "INT", "TERM"), stderr=subprocess.PIPE)
    study.send_signal(signal.SIGHUP)
    study.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        study.wait(0.5)
    study.send_signal(signal.SIGTERM)
    _, said = study.communicate(timeout=60)
    assert study.returncode == 128 + signal.SIGTERM, said
    assert b"the same command continues" in said


def on_terminal(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A study with a terminal of its own, and our end of that."""
    ours, theirs = pty.openpty()
    study = start(folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    return study, ours


def test_a_study_whose_terminal_is_closed_ends_as_by_the_hangup(tmp_path: Path) -> None:
    study, ours = on_terminal(tmp_path)
    os.close(ours)
    study.send_signal(signal.SIGHUP)  # as its shell does
    assert study.wait(60) == 128 + signal.SIGHUP
    shown = tune(tmp_path, "show")
    assert "interrupted by SIGHUP" in shown.stdout


def test_ctrl_c_twice_says_what_is_kept_and_nothing_of_python(tmp_path: Path) -> None:
    study, ours = on_terminal(tmp_path)
    study.send_signal(signal.SIGINT)
    time.sleep(0.2)
    study.send_signal(signal.SIGINT)
    screen = b""
    try:
        while data := os.read(ours, 65536):
            screen += data
    except OSError:  # it has ended
        os.close(ours)
    assert study.wait(60) in (128 + signal.SIGINT, -signal.SIGINT)
    assert b"interrupted" in screen and b"Traceback" not in screen, screen
