"""Whatever a trial starts and however it ends, nothing of it is left, and nothing else is hurt."""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.marked import PATIENCE_S, alive, eventually, marked
from tuner.hosts import process, procfs
from tuner.hosts.process import Exit, SupervisedCommand
from tuner.model import Launch

pytestmark = pytest.mark.system

#: Starts a child in a session of its own, away from its parent: a daemon.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        {become}
        time.sleep(600)
    os._exit(0)
os.wait()
print('ready', flush=True)
"""

#: A process that is never the same for long: each forks the next and ends.
RUNNER = """
import os, time
print('ready', flush=True)
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.0005)
"""

POLITE = "echo ready; sleep 600 & sleep 600"
STUBBORN = "trap '' TERM INT HUP; echo ready; while :; do sleep 600; done"

Start = Callable[..., SupervisedCommand]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a trial and waits until it says that it is ready; in the end nothing of it is left."""
    started: list[SupervisedCommand] = []

    def call(*argv: str, wait: bool = True) -> SupervisedCommand:
        launch = Launch(argv, os.environ, tmp_path, tmp_path / "out", tmp_path)
        started.append(process.start(launch))
        if wait:
            eventually(lambda: "ready" in output(tmp_path))
        return started[-1]

    yield call
    for running in started:
        running.stop()
        assert marked(running.marker) == []


def output(folder: Path) -> str:
    return (folder / process.OUTPUT).read_text()


def finish(running: SupervisedCommand) -> Exit:
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    return ended


# --- stopping ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "processes", "code"),
    [
        (STUBBORN, 2, -9),
        ("sleep 600 & echo ready; kill -STOP $$", 2, -15),
        ("sh -c 'echo ready; sleep 600; true'; true", 3, -15),
        ("(sleep 600 &); sleep 600 & echo ready; sleep 600", 4, -15),
        ("trap 'echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.01; done", 1, 3),
    ],
    ids=["ignores", "stopped", "a wrapper without exec", "an orphan", "tidies up"],
)
def test_whatever_a_program_does_it_is_ended(
    tmp_path: Path, start: Start, script: str, processes: int, code: int
) -> None:
    running = start("sh", "-c", script)
    eventually(lambda: len(running.pids()) >= processes)
    pids = running.pids()
    ended = running.stop()
    assert (ended.code, ended.stopped) == (code, True)
    assert ("tidied" in output(tmp_path)) == (code == 3)
    assert [procfs.stat(pid) for pid in pids] == [None] * len(pids), "nor a zombie"


@pytest.mark.parametrize(
    "become",
    ["pass", "os.execve('/bin/sleep', ['sleep', '600'], {})"],
    ids=["marked", "without the marker"],
)
@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "ends by itself"])
def test_a_daemon(start: Start, become: str, stop: bool) -> None:
    code = DAEMON.format(become=become) + ("time.sleep(600)" if stop else "")
    running = start(sys.executable, "-c", code)
    pids = running.pids()
    ended = running.stop() if stop else finish(running)
    assert (ended.code, ended.stopped) == ((-15, True) if stop else (0, False))
    assert ended.killed == 1
    assert not any(alive(pid) for pid in pids)


def test_a_process_that_runs_away(start: Start) -> None:
    start(sys.executable, "-c", RUNNER)


# --- bystanders --------------------------------------------------------------------------


def test_only_what_carries_the_marker_is_ended_wherever_it_came_from(
    start: Start, bystander: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A rank that some daemon has started for us (Slurm, sshd) is no descendant."""
    running = start("sleep", "600", wait=False)
    stray, *others = (
        bystander("sleep", "600", env={**os.environ, **variables})
        for variables in (
            {process.MARKER: running.marker},
            {process.MARKER: running.marker + "0"},
            {process.MARKER: "of another trial"},
            {f"NOT_{process.MARKER}": running.marker},
            {},
        )
    )
    assert running.stop().killed == 1
    assert stray.wait(PATIENCE_S) == -9
    assert [other.poll() for other in others] == [None] * len(others)


# --- tune or the supervisor is killed ----------------------------------------------------

PARENT = """
import os, sys, time
from pathlib import Path
from tuner.hosts import process
from tuner.model import Launch
folder = Path(sys.argv[1])
running = process.start(Launch(("sh", "-c", sys.argv[2]), os.environ, folder, folder, folder))
print(running.marker, running._process.pid, flush=True)
{then}
"""

#: A fork of tune holds the control pipe open, until the test says so.
FORK = """
if os.fork() == 0:
    while not (folder / "done").exists():
        time.sleep(0.01)
    os._exit(0)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("command", "then"), [(POLITE, "time.sleep(600)"), (STUBBORN, FORK)], ids=["alone", "a fork"]
)
def test_kill_9_of_tune(tmp_path: Path, command: str, then: str) -> None:
    argv = [sys.executable, "-c", PARENT.format(then=then), str(tmp_path), command]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        marker = parent.stdout.readline().split()[0]
        eventually(lambda: "ready" in output(tmp_path))
        assert marked(marker)
        parent.kill()
    try:
        eventually(lambda: marked(marker) == [])
    finally:
        (tmp_path / "done").touch()


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        (POLITE, signal.SIGTERM, -15),
        (POLITE, signal.SIGHUP, -15),
        (STUBBORN, signal.SIGINT, -9),
        (POLITE, signal.SIGKILL, None),
    ],
)
def test_a_signal_to_the_supervisor(
    start: Start, command: str, number: int, code: int | None
) -> None:
    running = start("sh", "-c", command)
    os.kill(running._process.pid, number)
    ended = finish(running)
    assert (ended.stopped, ended.lost, ended.code) == (True, True, code)
    assert marked(running.marker) == []


def test_kill_9_of_the_supervisor_and_a_daemon_without_the_marker(start: Start) -> None:
    """Its parent is gone with the supervisor, and nothing in it says whose it was."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    script = f'setsid env -i {shlex.quote(sys.executable)} -S -c "{code}" & sleep 600'
    running = start("sh", "-c", script, wait=False)
    eventually(lambda: len(running.pids()) == 4)
    pids = running.pids()
    assert len(marked(running.marker)) == 2
    os.kill(running._process.pid, signal.SIGKILL)
    finish(running)
    assert [pid for pid in pids if alive(pid)] == []


def test_a_supervisor_that_was_stopped_goes_on_to_its_work(start: Start) -> None:
    running = start("sh", "-c", POLITE)
    os.kill(running._process.pid, signal.SIGSTOP)
    ended = running.stop()
    assert (ended.code, ended.stopped) == (-15, True)


def test_a_supervisor_that_is_killed_before_it_answers_leaves_nothing(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = SupervisedCommand._receive

    def striking(trial: SupervisedCommand, timeout_s: float) -> dict[str, object] | None:
        monkeypatch.undo()
        eventually(lambda: "ready" in output(tmp_path))
        os.kill(trial._process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, trial._process.pid, os.WEXITED | os.WNOWAIT)
        os.read(trial._status, 1 << 16)  # the answer is lost with it
        return receive(trial, timeout_s)

    monkeypatch.setattr(SupervisedCommand, "_receive", striking)
    running = start("sh", "-c", POLITE, wait=False)
    ended = finish(running)
    assert (ended.code, ended.stopped, ended.lost, running.pid) == (None, True, True, 0)


def test_in_a_hurry_the_command_gets_no_time_to_end_by_itself(tmp_path: Path, start: Start) -> None:
    """The second Ctrl-C."""
    script = "trap 'sleep 1.5; echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    running = start("sh", "-c", script)
    process.hurry()
    ended = running.stop()
    assert (ended.code, ended.stopped) == (-9, True)
    assert "tidied" not in output(tmp_path)


def test_no_temporary_file_is_left(tmp_path: Path, start: Start) -> None:
    script = "mkdir $TMPDIR/ompi.1; touch $TMPDIR/left; echo $TMPDIR; echo ready; sleep 600"
    running = start("sh", "-c", script)
    folder = Path(output(tmp_path).split()[0])
    assert (folder / "left").exists()
    running.stop()
    assert not folder.exists()


def test_an_ordinary_user() -> None:
    """Other users' processes cannot be read then, and need not be."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as one already")
    nobody = 65534
    as_nobody: dict[str, Any] = {"user": nobody, "group": nobody, "extra_groups": []}

    def may_run(python: str) -> bool:
        with contextlib.suppress(OSError):
            return subprocess.run([python, "-c", ""], **as_nobody, check=False).returncode == 0
        return False

    python = next(filter(may_run, (sys.executable, "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("no interpreter that other users may run")
    source = Path(process.__file__).parents[2]
    code = PARENT.format(then="print(running.stop(), process.run_tool(['id', '-u'], timeout_s=60))")
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to other users
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copytree(source, folder / "tuner", ignore=shutil.ignore_patterns("__pycache__"))
        argv = [python, "-c", code, name, "sleep 600 & sleep 600"]
        env = {"PATH": os.environ["PATH"]}
        options = {**as_nobody, "cwd": folder, "env": env}
        done = subprocess.run(argv, **options, capture_output=True, text=True, check=True)
    assert "code=-15" in done.stdout
    assert f"stdout='{nobody}\\n'" in done.stdout
    assert marked(done.stdout.split()[0]) == []


# --- in the foreground -------------------------------------------------------------------

EXECUTE = """
import os, sys
from tuner.hosts import process
sys.exit(process.execute(sys.argv[1:], {**os.environ, "TUNE_TRIAL": "%s"}).code)
"""


@pytest.fixture
def execute() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program that runs its arguments in the foreground; they carry ``marker``."""
    started: list[subprocess.Popen[str]] = []

    def begin(marker: str, *argv: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", EXECUTE % marker, *argv]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.communicate()


@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        ("read a; echo $a$a; exit 5", 5, "abab\n"),
        ("kill -9 $$", 137, ""),
        ("sleep 600 >&- & exit 4", 4, ""),
    ],
    ids=["our input and output", "128 and the signal", "leaves nothing"],
)
def test_the_foreground(
    execute: Callable[..., subprocess.Popen[str]], script: str, code: int, printed: str
) -> None:
    marker = os.urandom(16).hex()
    running = execute(marker, "sh", "-c", script)
    assert running.communicate("ab\n")[0] == printed
    assert running.returncode == code
    assert marked(marker) == []


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1", "QUIT", "KILL"])
def test_signals_are_handed_on_and_kill_9_ends_the_command(
    execute: Callable[..., subprocess.Popen[str]], name: str
) -> None:
    trap = "" if name == "KILL" else f"trap 'echo got; exit 9' {name}; "
    marker = os.urandom(16).hex()
    script = f"trap '' TERM; {trap}echo ready; while :; do sleep 0.01; done"
    running = execute(marker, "sh", "-c", script)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(getattr(signal, f"SIG{name}"))
    if name != "KILL":
        assert running.stdout.readline() == "got\n"
        assert running.wait(PATIENCE_S) == 9
    eventually(lambda: marked(marker) == [])


def test_ctrl_c_reaches_the_command_once() -> None:
    marker = os.urandom(16).hex()
    script = "trap 'echo got' INT; echo ready; read a; echo $a; sleep 0.1; exit 6"
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-c", EXECUTE % marker, "bash", "-c", script]
        os.execv(command[0], command)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        seen = b""

        def read_until(word: bytes, times: int = 1) -> None:
            nonlocal seen
            while seen.count(word) < times:
                seen += screen.read(100)

        read_until(b"ready")
        screen.write(b"\x03")
        read_until(b"got")
        screen.write(b"again\n")
        read_until(b"again", 2)  # the echo, and the answer
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 6
    assert seen.count(b"got") == 1
    assert marked(marker) == []
