"""The whole tool as a process: real mpirun, real database, real signals and terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.light_trainer import MAIN, QUICK, command, environment, make_folder, tune

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name where a study was made."""
    found = make_folder(tmp_path_factory.mktemp("cli") / "my work")
    done = tune(found, *QUICK, "--trials", "4", *command())
    assert done.returncode == 0, done.stderr
    (found / "first.out").write_text(done.stdout)
    (found / "first.err").write_text(done.stderr)
    return found


def test_a_study_ends_with_its_result_and_the_next_commands(folder: Path) -> None:
    out = (folder / "first.out").read_text()
    assert re.search(
        r"Study quick: finished, 4 settings (measured|tried \(.*\)) in \d+ launches", out
    )
    assert re.search(r"[\d.]+ times faster than your defaults \(95 % ", out)
    assert re.search(r"the tuning took .*; a run as measured saves .*: break-even after ", out)
    assert "omp_threads=1" in out
    assert "  tune export quick --format sh -o job.sh" in out


def test_progress_is_timed_lines_where_there_is_no_terminal(folder: Path) -> None:
    err = (folder / "first.err").read_text()
    assert "\x1b" not in err
    assert re.search(r"^\[0:\d\d\] - baseline: (stopped after )?[\d.]+ s", err, re.MULTILINE)
    assert re.search(r"^\[0:\d\d\] 4/4 ", err, re.MULTILINE)
    assert len(re.findall(r"- baseline \(confirmation\): ", err)) >= 3


def test_a_finished_study_is_shown_and_not_run_again(folder: Path) -> None:
    done = tune(folder, *QUICK, "--trials", "4", *command())
    assert done.returncode == 0
    assert done.stdout == (folder / "first.out").read_text()
    assert done.stderr == ""


def test_the_result_as_json_is_all_that_is_on_stdout(folder: Path) -> None:
    done = tune(folder, *QUICK, "--trials", "4", "--json", "-q", *command())
    document = json.loads(done.stdout)
    assert (document["schema"], document["state"]) == ("tuner.result/1", "finished")
    assert (document["verdict"], document["finding"]["claim"]) == ("faster", "faster")
    assert document["finding"]["low"] > 1
    assert document["export"] == document["best"]["setting"]
    assert done.stderr == ""


def test_show_studies_and_exec_read_the_study(folder: Path) -> None:
    assert json.loads(tune(folder, "show", "--json").stdout)["result"]["study"] == "quick"
    assert json.loads(tune(folder, "studies", "--json").stdout)["studies"][0]["trials"] == 4
    program = "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.argv[1])"
    done = tune(folder, "exec", "--", sys.executable, "-c", program, "{iterator_workers}")
    best = json.loads(tune(folder, "show", "--json").stdout)["result"]["best"]["setting"]
    assert done.stdout.split() == [str(best["omp_threads"]), str(best["iterator_workers"])]


def test_another_command_under_the_same_name_is_refused(folder: Path) -> None:
    done = tune(folder, *QUICK, "--trials", "4", *command("--scale", "2"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "--scale 2" in done.stderr


def test_a_dry_run_prints_the_launches_and_makes_nothing(tmp_path: Path) -> None:
    make_folder(tmp_path)
    done = tune(tmp_path, *QUICK, "--dry-run", *command())
    assert done.returncode == 0
    assert "OMP_NUM_THREADS=1" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    pasted = subprocess.run(
        ["sh", "-e"],
        input=done.stdout,
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert pasted.returncode == 0, pasted.stderr
    assert (tmp_path / "OUTPUTS" / "1" / "out" / "log").is_file()
    guess, *_, defaults = sorted((tmp_path / "OUTPUTS").glob("*/out/got"))
    assert json.loads(guess.read_text())[0] in (1, 2)
    assert json.loads(defaults.read_text()) == [4, 6]


def test_nothing_measured_ends_with_3_and_the_first_reason(tmp_path: Path) -> None:
    make_folder(tmp_path)
    done = tune(tmp_path, *QUICK, *command("--no-such-option"))
    assert done.returncode == 3
    assert "--no-such-option" in done.stderr
    assert "output.log" in done.stderr
    shown = tune(tmp_path, "show")
    assert shown.returncode == 0
    assert "--no-such-option" in shown.stdout


def test_a_limit_ends_with_4(tmp_path: Path) -> None:
    make_folder(tmp_path)
    done = tune(tmp_path, *QUICK, "--trial-limit", "1", *command("--scale", "500"))
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].startswith("  next: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_measured_and_the_same_command_continues(
    tmp_path: Path, number: signal.Signals
) -> None:
    make_folder(tmp_path)
    args = (*QUICK, "--trials", "3", "--no-confirm", *command("--scale", "5"))
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *args],
        cwd=tmp_path,
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "] 1/3 " in line:
                break
        running.send_signal(number)
        rest = running.stderr.read()
    assert running.returncode == 128 + number
    assert "the same command continues" in rest
    folders = {each.info["cwd"] for each in psutil.process_iter(["cwd"])}
    assert str(tmp_path) not in folders  # the ranks ran there
    done = tune(tmp_path, *args)
    assert done.returncode == 0, done.stderr
    assert re.search("finished, 3 settings (measured|tried)", done.stdout)


def on_a_terminal(folder: Path, *args: str, **changes: str) -> str:
    """What ``tune`` writes on a terminal of its own."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *args],
        cwd=folder,
        env=environment(folder, COLUMNS="100", LINES="40", **changes),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        written = b"".join(read_all(ours))
    os.close(ours)
    assert running.returncode == 0
    return written.decode()


def read_all(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # the other side is closed
            return
        if not data:
            return
        yield data


def test_on_a_terminal_the_view_is_redrawn(tmp_path: Path) -> None:
    make_folder(tmp_path)
    args = (*QUICK, "--trials", "2", "--no-confirm", *command("--scale", "4"))
    text = on_a_terminal(tmp_path, *args)
    assert "of at most 2 settings" in text
    assert "your environment as it is" in text
    assert "\x1b[1A" in text or "\x1b[2K" in text
    assert "\x1b[1m" in text  # a heading


def test_the_dashboard_prints_its_address_and_ends_with_ctrl_c(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "dashboard", "--port", "0"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        timer = threading.Timer(60, running.kill)
        timer.start()
        assert running.stdout is not None
        line = running.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/dashboard/\?token=[\w-]{43}", line)
        assert address is not None, line
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address[0], timeout=30) as answer:
            assert answer.status == 200
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
        timer.cancel()
    assert running.returncode == 0
    assert "Traceback" not in err
