"""Whatever a trial starts and however it ends, nothing of it is left, and nothing else is hurt."""

from __future__ import annotations

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

import pytest

from tests.marked import PATIENCE_S, alive, eventually, marked
from tuner.hosts import process, procfs
from tuner.hosts.process import RunningTrial
from tuner.hosts.supervisor.cgroup import Cgroup
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
"""

#: A process that is never the same for long: each forks the next and ends.
RUNNER = """
import os, time
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.0005)
"""

STUBBORN = "trap '' TERM INT HUP; echo ready; while :; do sleep 600; done"


def launch(folder: Path, *argv: str) -> Launch:
    return Launch(argv, os.environ, folder, folder / "out", folder)


def python(folder: Path, code: str) -> Launch:
    return launch(folder, sys.executable, "-c", code)


def says_ready(folder: Path) -> Callable[[], bool]:
    return lambda: "ready" in (folder / process.OUTPUT).read_text()


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
    tmp_path: Path, script: str, processes: int, code: int
) -> None:
    running = process.start(launch(tmp_path, "sh", "-c", script))
    eventually(says_ready(tmp_path))
    eventually(lambda: len(running.pids()) >= processes)
    pids = running.pids()
    ended = running.stop()
    assert (ended.code, ended.stopped) == (code, True)
    assert ("tidied" in (tmp_path / process.OUTPUT).read_text()) == (code == 3)
    assert [procfs.stat(pid) for pid in pids] == [None] * len(pids), "nor a zombie"
    assert marked(running.marker) == []


@pytest.mark.parametrize(
    "become",
    ["pass", "os.execve('/bin/sleep', ['sleep', '600'], {})"],
    ids=["marked", "without the marker"],
)
@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "ends by itself"])
def test_a_daemon(tmp_path: Path, become: str, stop: bool) -> None:
    code = DAEMON.format(become=become) + "print('ready', flush=True)\n"
    running = process.start(python(tmp_path, code + ("time.sleep(600)" if stop else "")))
    eventually(says_ready(tmp_path))
    pids = running.pids()
    ended = running.stop() if stop else running.wait(PATIENCE_S)
    assert ended is not None
    assert (ended.code, ended.stopped) == ((-15, True) if stop else (0, False))
    assert ended.killed == 1
    assert not any(alive(pid) for pid in pids)
    assert marked(running.marker) == []


def test_a_process_that_runs_away(tmp_path: Path) -> None:
    running = process.start(python(tmp_path, f"print('ready', flush=True)\n{RUNNER}"))
    eventually(says_ready(tmp_path))
    running.stop()
    assert marked(running.marker) == []


# --- bystanders --------------------------------------------------------------------------


def test_the_same_command_outside_of_the_trial_lives_on(
    tmp_path: Path, bystander: Callable[..., subprocess.Popen[bytes]]
) -> None:
    plain = bystander("sleep", "600", env=dict(os.environ))
    running = process.start(launch(tmp_path, "sleep", "600"))
    similar = running.marker + "0"
    others = [
        plain,
        bystander("sleep", "600", env={**os.environ, process.MARKER: "of another trial"}),
        bystander("sleep", "600", env={**os.environ, process.MARKER: similar}),
        bystander("sleep", "600", env={**os.environ, f"NOT_{process.MARKER}": running.marker}),
    ]
    running.stop()
    assert [other.poll() for other in others] == [None] * len(others)


def test_what_carries_the_marker_is_ended_wherever_it_came_from(
    tmp_path: Path, bystander: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A rank that some daemon has started for us (Slurm, sshd) is no descendant."""
    running = process.start(launch(tmp_path, "sleep", "600"))
    stray = bystander("sleep", "600", env={**os.environ, process.MARKER: running.marker})
    assert running.stop().killed == 1
    assert stray.wait(PATIENCE_S) == -9


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


def started_by_another(folder: Path, command: str, then: str) -> tuple[subprocess.Popen[str], str]:
    """A process that has started a trial, and the trial's marker."""
    argv = [sys.executable, "-c", PARENT.format(then=then), str(folder), command]
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        marker = parent.stdout.readline().split()[0]
    eventually(says_ready(folder))
    assert marked(marker)
    return parent, marker


#: A fork of tune holds the control pipe open, until the test says so.
FORK = """
if os.fork() == 0:
    while not (folder / "done").exists():
        time.sleep(0.01)
    os._exit(0)
time.sleep(600)
"""


@pytest.mark.parametrize("command", ["echo ready; sleep 600 & sleep 600", STUBBORN])
@pytest.mark.parametrize("then", ["time.sleep(600)", FORK], ids=["alone", "with a fork"])
def test_kill_9_of_tune(tmp_path: Path, command: str, then: str) -> None:
    parent, marker = started_by_another(tmp_path, command, then)
    parent.kill()
    parent.wait()
    try:
        eventually(lambda: marked(marker) == [])
    finally:
        (tmp_path / "done").touch()


@pytest.mark.parametrize("command", ["echo ready; sleep 600 & sleep 600", STUBBORN])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_to_the_supervisor(tmp_path: Path, command: str, number: int) -> None:
    running = process.start(launch(tmp_path, "sh", "-c", command))
    eventually(says_ready(tmp_path))
    os.kill(running._process.pid, number)
    ended = running.wait(PATIENCE_S)
    assert ended is not None and ended.stopped and ended.lost
    politely = -9 if command == STUBBORN else -15
    assert ended.code == (None if number == signal.SIGKILL else politely)
    assert marked(running.marker) == []


@pytest.mark.parametrize("looked", ["while it ran", "only at its child"])
def test_kill_9_of_the_supervisor_and_a_daemon_without_the_marker(
    tmp_path: Path, looked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent is gone with the supervisor, and nothing in it says whose it was."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    script = f'setsid env -i {shlex.quote(sys.executable)} -S -c "{code}" & sleep 600'
    running = process.start(launch(tmp_path, "sh", "-c", script))
    eventually(lambda: len(running.pids()) == 4)
    pids = running.pids()
    assert len(marked(running.marker)) == 2
    if looked == "only at its child":
        # What was seen of the daemon is enough for what it started since.
        daemon = min(set(pids) - set(marked(running.marker)))
        monkeypatch.setattr(running, "_seen", {seen for seen in running._seen if seen[0] == daemon})
    os.kill(running._process.pid, signal.SIGKILL)
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    assert [pid for pid in pids if alive(pid)] == []


def test_a_supervisor_that_was_stopped_goes_on_to_its_work(tmp_path: Path) -> None:
    running = process.start(launch(tmp_path, "sh", "-c", "sleep 600 & sleep 600"))
    os.kill(running._process.pid, signal.SIGSTOP)
    ended = running.stop()
    assert (ended.code, ended.stopped) == (-15, True)
    assert marked(running.marker) == []


@pytest.mark.parametrize("moment", ["before it was asked", "before it answered"])
def test_a_supervisor_that_is_killed_at_once_is_told_apart_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whether it could start the command or not: nothing is left, and nobody else is blamed."""
    answers = moment == "before it answered"
    wrapped = "_receive" if answers else "_ask"
    original = getattr(RunningTrial, wrapped)
    struck: list[int] = []

    def striking(trial: RunningTrial, *rest: object) -> object:
        if not struck:
            if answers:
                eventually(says_ready(tmp_path))
            struck.append(pid := trial._process.pid)
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            os.read(trial._status, 1 << 16)  # the answer, were there one, is lost with it
        return original(trial, *rest)

    monkeypatch.setattr(RunningTrial, wrapped, striking)
    running = process.start(launch(tmp_path, "sh", "-c", "echo ready; sleep 600 & sleep 600"))
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    assert (ended.code, ended.stopped, ended.lost, running.pid) == (None, True, True, 0)
    assert running.stop() == ended
    assert marked(running.marker) == []


def test_hurry(tmp_path: Path) -> None:
    """The second Ctrl-C: the command gets no time to end by itself."""
    script = "trap 'sleep 1.5; echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    running = process.start(launch(tmp_path, "sh", "-c", script))
    eventually(says_ready(tmp_path))
    process.hurry()
    ended = running.stop()
    assert (ended.code, ended.stopped) == (-9, True)
    assert (tmp_path / process.OUTPUT).read_text() == "ready\n"
    assert marked(running.marker) == []


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """`nohup tune …`: the terminal goes, the study goes on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = process.start(launch(tmp_path, "sh", "-c", "echo ready; sleep 600"))
        eventually(says_ready(tmp_path))
        for pid in (running._process.pid, running.pid):
            os.kill(pid, signal.SIGHUP)
            status = Path(f"/proc/{running._process.pid}/status").read_text()
        ignored = int(status.split("SigIgn:")[1].split()[0], 16)
        assert ignored & 1 << signal.SIGHUP - 1
    finally:
        signal.signal(signal.SIGHUP, before)
        running.stop()


def test_its_temporary_files_go_with_the_trial(tmp_path: Path) -> None:
    script = "touch $TMPDIR/left; mkdir $TMPDIR/ompi.1; echo $TMPDIR; sleep 600"
    running = process.start(launch(tmp_path, "sh", "-c", script))
    eventually(lambda: (tmp_path / process.OUTPUT).read_text().endswith("\n"))
    folder = Path((tmp_path / process.OUTPUT).read_text().strip())
    eventually((folder / "ompi.1").is_dir)
    running.stop()
    assert not folder.exists()


@pytest.mark.parametrize("how", ["ends", "is killed with its supervisor"])
def test_no_control_group_is_left(tmp_path: Path, how: str) -> None:
    running = process.start(launch(tmp_path, "sh", "-c", "echo ready; sleep 600"))
    eventually(says_ready(tmp_path))
    group = running._group.path
    if not group or not Path(group).exists():
        running.stop()
        pytest.skip("no control group can be made here")
    assert running.pid in Cgroup(group).members()
    if how != "ends":
        os.kill(running._process.pid, signal.SIGKILL)
    running.stop()
    assert not Path(group).exists()


def test_without_a_control_group_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "place_for", lambda _: "")
    code = DAEMON.format(become="pass") + "print('ready', flush=True)\ntime.sleep(600)"
    running = process.start(python(tmp_path, code))
    eventually(says_ready(tmp_path))
    pids = running.pids()
    running.stop()
    assert not any(alive(pid) for pid in pids)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder for everybody; pytest's own are closed to other users."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_an_ordinary_user(open_folder: Path) -> None:
    """Other users' processes cannot be read then, and need not be."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as one already")
    nobody = 65534
    source = Path(process.__file__).parents[2]
    shutil.copytree(source, open_folder / "tuner", ignore=shutil.ignore_patterns("__pycache__"))
    code = PARENT.format(then="print(running.stop(), process.run_tool(['id', '-u'], timeout_s=60))")
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", code, str(open_folder), "sleep 600 & sleep 600"],
                user=nobody,
                group=nobody,
                extra_groups=[],
                cwd=open_folder,
                env={"PATH": os.environ["PATH"]},
                capture_output=True,
                text=True,
                check=True,
            )
        except (PermissionError, FileNotFoundError):
            continue
        assert "code=-15" in done.stdout
        assert f"stdout='{nobody}\\n'" in done.stdout
        assert marked(done.stdout.split()[0]) == []
        return
    pytest.skip("no interpreter that other users may run")


# --- in the foreground -------------------------------------------------------------------

EXECUTE = """
import os, sys
from tuner.hosts import process
sys.exit(process.execute(sys.argv[1:], {**os.environ, "TUNE_TRIAL": "%s"}))
"""


@pytest.fixture
def execute() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program that runs its arguments in the foreground; they carry ``marker``."""
    started: list[subprocess.Popen[str]] = []

    def start(marker: str, *argv: str, **options: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", EXECUTE % marker, *argv]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
        started.append(subprocess.Popen(command, text=True, **pipes))  # type: ignore[call-overload]
        return started[-1]

    yield start
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
    marker = process.new_marker()
    running = execute(marker, "sh", "-c", script)
    assert running.communicate("ab\n")[0] == printed
    assert running.returncode == code
    assert marked(marker) == []


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "USR2", "QUIT"])
def test_signals_are_handed_on(execute: Callable[..., subprocess.Popen[str]], name: str) -> None:
    script = f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.01; done"
    running = execute(process.new_marker(), "sh", "-c", script)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(getattr(signal, f"SIG{name}"))
    assert running.stdout.readline() == "got\n"
    assert running.wait(PATIENCE_S) == 9


def test_kill_9_of_the_foreground(execute: Callable[..., subprocess.Popen[str]]) -> None:
    marker = process.new_marker()
    running = execute(marker, "sh", "-c", STUBBORN)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.kill()
    eventually(lambda: marked(marker) == [])


def test_ctrl_c_reaches_the_command_once() -> None:
    marker = process.new_marker()
    script = "trap 'echo got' INT; echo ready; read a; echo $a; sleep 0.1; exit 6"
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-c", EXECUTE % marker, "bash", "-c", script]
        os.execv(command[0], command)
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        seen = b""
        while b"ready" not in seen:
            seen += screen.read(100)
        screen.write(b"\x03")
        while b"got" not in seen:
            seen += screen.read(100)
        screen.write(b"again\n")
        while seen.count(b"again") < 2:  # the echo, and the answer
            seen += screen.read(100)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 6
    assert seen.count(b"got") == 1
    assert marked(marker) == []
