"""Starting and ending: the things that need no MPI."""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import signals
from tuner.hosts import process, procfs
from tuner.hosts.supervisor import cleanup, serving
from tuner.model import Launch
from tuner.model.errors import TunerError

PATIENCE_S = 60.0


def launch(folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> Launch:
    return Launch(argv, os.environ if env is None else env, folder, folder / "out", folder)


def finish(running: process.SupervisedCommand) -> process.Exit:
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


@pytest.mark.parametrize(("narrowest", "kills"), [("memory.events", (3, False)), ("", (9, True))])
def test_kills_for_want_of_memory_around_us_are_not_those_of_the_host(
    narrowest: str, kills: tuple[int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {narrowest: b"oom 4\noom_kill 3\n", "vmstat": b"nr_free 1\noom_kill 9\n"}
    monkeypatch.setattr(procfs, "cgroup_folders", lambda *_: ["/group"])
    monkeypatch.setattr(procfs, "try_read", lambda name: texts.get(Path(name).name))
    assert serving._oom_kills() == kills


def test_the_environment_is_the_one_given_and_the_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")  # as in a service of systemd: Open MPI does not start without it
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    running = process.start(launch(tmp_path, "env", env=env))
    finish(running)
    lines = dict(line.split("=", 1) for line in output(tmp_path).splitlines())
    assert lines.pop("HOME").startswith("/")
    folder = f"/tmp/tune-{running.marker[:16]}"
    assert lines == {**env, process.MARKER: running.marker, "TMPDIR": folder}


@pytest.mark.parametrize(("outer", "kept"), [("of another", True), ("mine", False)])
def test_a_marker_is_kept_unless_it_is_that_of_a_trial_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outer: str, kept: bool
) -> None:
    monkeypatch.setenv(process.MARKER, outer)
    running = process.start(launch(tmp_path, "true", env={**os.environ, process.MARKER: "mine"}))
    assert (running.marker == "mine") == kept
    finish(running)


@pytest.mark.parametrize(
    ("argv", "env", "code"),
    [
        (("no-such-program-é",), {}, errno.ENOENT),
        (("./plain",), {}, errno.EACCES),
        (("true", "a\0b"), {}, errno.EINVAL),
        (("true",), {"A": "a\0b"}, errno.EINVAL),
        (("true",), {"A=B": "x"}, errno.EINVAL),
    ],
)
def test_what_cannot_be_started_is_named_and_nothing_stays_open(
    tmp_path: Path, argv: tuple[str, ...], env: dict[str, str], code: int
) -> None:
    (tmp_path / "plain").touch()
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match=os.strerror(code)) as caught:
        process.start(launch(tmp_path, *argv, env={**os.environ, **env}))
    assert (caught.value.errno, caught.value.filename) == (code, argv[0])
    assert set(Path("/proc/self/fd").iterdir()) == before


COMPUTES_IN_A_THREAD = """
import itertools, os, threading
if not os.fork():
    threading.Thread(target=sum, args=(itertools.repeat(0),)).start()
"""
DAEMON = "( sleep 0.2; {last} ) </dev/null >/dev/null 2>&1 & exit 0"


def test_what_goes_on_after_the_command_is_named_and_killed_or_waited_for(tmp_path: Path) -> None:
    worker = launch(tmp_path, "sh", "-c", DAEMON.format(last="while :; do :; done"))
    exit_ = finish(process.start(worker))
    assert exit_.left_running == (("sh", True),) and exit_.killed
    exit_ = finish(process.start(launch(tmp_path, sys.executable, "-c", COMPUTES_IN_A_THREAD)))
    assert [computes for _, computes in exit_.left_running] == [True]
    done = launch(tmp_path, "sh", "-c", DAEMON.format(last=f"sleep 0.4; echo > {tmp_path}/done"))
    exit_ = finish(process.start(replace(done, waits_for_children=True)))
    assert (exit_.left_running, exit_.killed) == ((), 0)
    assert exit_.wall_s >= 0.6 and (tmp_path / "done").exists()


def test_what_sigkill_cannot_end_is_an_error_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = process.start(launch(tmp_path, "true"))
    answer = {"code": 0, "wall_s": 1.0, "stopped": False, "killed": 3, "left": [4, 5]}
    monkeypatch.setattr(running, "_receive", lambda _: dict(answer))
    for end in (running.poll, running.stop):
        with pytest.raises(TunerError, match=r"do not end on SIGKILL: \[4, 5\]"):
            end()


def test_the_command_inherits_three_descriptors_and_no_ignored_signal(tmp_path: Path) -> None:
    ignored = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd"
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # as of nohup, or CI
    ours = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    before = set(Path("/proc/self/fd").iterdir())
    try:
        finish(process.start(launch(tmp_path, "sh", "-c", ignored)))
    finally:
        for number, handler in zip(numbers, ours, strict=True):
            signal.signal(number, handler)
    printed = output(tmp_path)
    assert signals.of_status(printed, "SigIgn") == signals.of_status(printed, "SigBlk") == set()
    assert printed.split()[4:] == ["0", "1", "2", "3"]  # 3 is what `ls` reads
    assert set(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("argv", "timeout_s", "said"),
    [
        (["sleep", "600"], 0.05, "sleep does not end within"),
        (["yes"], 600, "yes prints without an end"),
    ],
)
def test_run_tool_ends_what_takes_too_long_or_prints_without_an_end(
    argv: list[str], timeout_s: float, said: str
) -> None:
    with pytest.raises(TimeoutError, match=said):
        process.run_tool(argv, timeout_s=timeout_s)
