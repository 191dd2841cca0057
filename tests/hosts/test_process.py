"""Starting and ending: the things that need no MPI."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import signals
from tuner.hosts import process
from tuner.hosts.supervisor import cleanup
from tuner.model import Launch
from tuner.model.errors import TunerError

PATIENCE_S = 60.0


def launch(folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> Launch:
    return Launch(argv, os.environ if env is None else env, folder, folder / "out", folder)


def finish(running: process.RunningTrial) -> process.Exit:
    ended = running.wait(PATIENCE_S)
    assert ended is not None
    return ended


def output(folder: Path) -> str:
    return (folder / process.OUTPUT).read_text()


def test_the_exit_status_and_a_log_of_both_streams_for_the_user_alone(tmp_path: Path) -> None:
    log = tmp_path / process.OUTPUT
    log.write_text("of an earlier trial")
    log.chmod(0o644)
    running = process.start(launch(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 7"))
    ended = finish(running)
    assert (ended.code, ended.stopped, ended.killed) == (7, False, 0)
    assert ended.wall_s > 0
    assert output(tmp_path) == "out\nerr\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert running.poll() is running.stop() is ended
    assert running.pids() == ()


def test_the_environment_is_the_one_given_and_the_marker(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "ONLY": "this"}
    running = process.start(launch(tmp_path, "env", env=env))
    finish(running)
    lines = dict(line.split("=", 1) for line in output(tmp_path).splitlines())
    folder = f"/tmp/tune-{running.marker[:16]}"
    assert lines == {**env, process.MARKER: running.marker, "TMPDIR": folder}


def test_a_command_has_a_home_even_if_we_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a service of systemd: Open MPI does not start without the variable."""
    monkeypatch.delenv("HOME")
    finish(process.start(launch(tmp_path, "sh", "-c", "cd $HOME && pwd", env={})))
    assert output(tmp_path).startswith("/")


@pytest.mark.parametrize(("outer", "kept"), [("of another", True), ("mine", False)])
def test_a_marker_is_kept_unless_it_is_that_of_a_trial_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outer: str, kept: bool
) -> None:
    monkeypatch.setenv(process.MARKER, outer)
    running = process.start(launch(tmp_path, "true", env={**os.environ, process.MARKER: "mine"}))
    assert (running.marker == "mine") == kept
    finish(running)


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    with pytest.raises(FileNotFoundError) as missing:
        process.start(launch(tmp_path, "no-such-program-é"))
    assert missing.value.filename == "no-such-program-é"
    with pytest.raises(PermissionError):
        process.start(launch(tmp_path, str(plain)))
    nowhere = tmp_path / "nowhere"
    with pytest.raises(FileNotFoundError) as missing:
        process.start(Launch(("true",), os.environ, nowhere, nowhere, tmp_path))
    assert missing.value.filename == str(nowhere)
    with pytest.raises(FileNotFoundError):
        process.start(launch(nowhere, "true"))
    cases: list[tuple[str, dict[str, str]]] = [
        ("a\0b", {}),
        ("", {"A": "a\0b"}),
        ("", {"A=B": "x"}),
    ]
    for word, env in cases:
        with pytest.raises(OSError, match="Invalid argument") as caught:
            process.start(launch(tmp_path, "true", word, env={**os.environ, **env}))
        assert caught.value.errno == errno.EINVAL


DAEMON = "( sleep 0.2; {last} ) </dev/null >/dev/null 2>&1 & exit 0"


def test_what_goes_on_after_the_command_is_named_and_killed_or_waited_for(tmp_path: Path) -> None:
    worker = launch(tmp_path, "sh", "-c", DAEMON.format(last="while :; do :; done"))
    exit_ = finish(process.start(worker))
    assert exit_.left_running == (("sh", True),) and exit_.killed
    done = launch(tmp_path, "sh", "-c", DAEMON.format(last=f"sleep 0.4; echo > {tmp_path}/done"))
    exit_ = finish(process.start(replace(done, waits_for_children=True)))
    assert (exit_.left_running, exit_.killed) == ((), 0)
    assert exit_.wall_s >= 0.6 and (tmp_path / "done").exists()


def test_a_supervisor_that_does_not_go_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever: not even for one that was stopped after its last word."""
    running = process.start(launch(tmp_path, "sleep", "600"))
    monkeypatch.setattr("tuner.hosts.process.running.ANSWER_S", 0.05)
    os.kill(running._process.pid, signal.SIGSTOP)
    answer = {"code": 0, "wall_s": 1.0, "stopped": False, "killed": 0, "left": []}
    monkeypatch.setattr(running, "_receive", lambda _: answer)
    try:
        assert running.wait(1) is not None
        assert running._process.returncode == -signal.SIGKILL
    finally:
        cleanup.Remains(running.marker, running._process.pid, running._since).sweep()
        running._group.remove()
        cleanup.remove_folder(running._folder)


def test_what_sigkill_cannot_end_is_an_error_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = process.start(launch(tmp_path, "true"))
    answer = {"code": 0, "wall_s": 1.0, "stopped": False, "killed": 3, "left": [4, 5]}
    monkeypatch.setattr(running, "_receive", lambda _: dict(answer))
    for end in (running.poll, running.stop, lambda: running.wait(1)):
        with pytest.raises(TunerError, match=r"do not end on SIGKILL: \[4, 5\]"):
            end()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    finish(process.start(launch(tmp_path, "true")))
    before = set(Path("/proc/self/fd").iterdir())
    finish(process.start(launch(tmp_path, "true")))
    running = process.start(launch(tmp_path, "sleep", "600"))
    assert running.wait(0.01) is None and running.pids() == (running.pid,)
    ended = running.stop()
    assert (ended.code, ended.stopped) == (-15, True)
    with pytest.raises(FileNotFoundError):
        process.start(launch(tmp_path, "no-such-program"))
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_the_command_inherits_three_descriptors_and_no_ignored_signal(tmp_path: Path) -> None:
    ignored = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd"
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # as of nohup, or CI
    ours = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        finish(process.start(launch(tmp_path, "sh", "-c", ignored)))
    finally:
        for number, handler in zip(numbers, ours, strict=True):
            signal.signal(number, handler)
    printed = output(tmp_path)
    assert signals.of_status(printed, "SigIgn") == signals.of_status(printed, "SigBlk") == set()
    assert printed.split()[4:] == ["0", "1", "2", "3"]  # 3 is what `ls` reads


def test_run_tool_ends_what_takes_too_long() -> None:
    with pytest.raises(TimeoutError, match="sleep does not end within"):
        process.run_tool(["sleep", "600"], timeout_s=0.05)


def test_run_tool_ends_what_prints_without_an_end() -> None:
    with pytest.raises(TimeoutError, match="yes prints without an end"):
        process.run_tool(["yes"], timeout_s=600)
