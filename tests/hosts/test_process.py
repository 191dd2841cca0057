"""Starting and ending: the things that need no MPI."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.hosts import process, procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor import cleanup
from tuner.hosts.supervisor.table import descendants, now
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


def test_the_exit_status_and_the_output_of_both_streams(tmp_path: Path) -> None:
    running = process.start(launch(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 7"))
    ended = finish(running)
    assert (ended.code, ended.stopped, ended.killed) == (7, False, 0)
    assert ended.wall_s > 0
    assert output(tmp_path) == "out\nerr\n"
    assert running.poll() is ended
    assert running.stop() is ended
    assert running.pids() == ()


def test_the_log_is_for_the_user_alone_and_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / process.OUTPUT
    log.write_text("of an earlier trial")
    log.chmod(0o644)
    finish(process.start(launch(tmp_path, "echo", "new")))
    assert output(tmp_path) == "new\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_the_environment_is_the_one_given_and_the_marker(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    running = process.start(launch(tmp_path, "env", env=env))
    finish(running)
    lines = dict(line.split("=", 1) for line in output(tmp_path).splitlines())
    folder = f"/tmp/tune-{running.marker[:16]}"
    assert lines == {**env, process.MARKER: running.marker, "TMPDIR": folder}


def test_the_marker_of_the_launch_is_kept(tmp_path: Path) -> None:
    running = process.start(launch(tmp_path, "true", env={**os.environ, process.MARKER: "mine"}))
    assert running.marker == "mine"
    finish(running)


def test_a_trial_within_a_trial_gets_its_own_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(process.MARKER, "outer")
    running = process.start(launch(tmp_path, "true"))
    assert running.marker != "outer"
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


@pytest.mark.parametrize(
    ("argv", "env"), [(("true", "a\0b"), {}), (("true",), {"A": "a\0b"}), (("true",), {"A=B": "x"})]
)
def test_what_no_command_can_be_given_is_no_exit_status(
    tmp_path: Path, argv: tuple[str, ...], env: dict[str, str]
) -> None:
    with pytest.raises(OSError, match="Invalid argument") as caught:
        process.start(launch(tmp_path, *argv, env={**os.environ, **env}))
    assert caught.value.errno == errno.EINVAL


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
        cleanup.sweep(running.marker, running._process.pid, running._since)
        running._group.remove()
        cleanup.remove_folder(running._folder)


def test_wait_gives_none_while_it_runs(tmp_path: Path) -> None:
    running = process.start(launch(tmp_path, "sleep", "600"))
    try:
        assert running.poll() is None
        assert running.wait(0.01) is None
        assert running.pids() == (running.pid,)
    finally:
        ended = running.stop()
    assert (ended.code, ended.stopped) == (-15, True)


def test_what_sigkill_cannot_end_is_an_error_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = process.start(launch(tmp_path, "true"))
    answer = {"code": 0, "wall_s": 1.0, "stopped": False, "killed": 3, "left": [4, 5]}
    monkeypatch.setattr(running, "_receive", lambda _: answer)
    for end in (running.poll, running.stop, lambda: running.wait(1)):
        with pytest.raises(TunerError, match=r"do not end on SIGKILL: \[4, 5\]"):
            end()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    finish(process.start(launch(tmp_path, "true")))
    before = set(Path("/proc/self/fd").iterdir())
    finish(process.start(launch(tmp_path, "true")))
    process.start(launch(tmp_path, "sleep", "600")).stop()
    with pytest.raises(FileNotFoundError):
        process.start(launch(tmp_path, "no-such-program"))
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_the_command_inherits_three_descriptors_and_no_ignored_signal(tmp_path: Path) -> None:
    ignored = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd"
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as `nohup` may have left it
    try:
        finish(process.start(launch(tmp_path, "sh", "-c", ignored)))
    finally:
        signal.signal(signal.SIGHUP, ours)
    lines = output(tmp_path).split()
    # The real-time signals from 32 on are as whoever started the tests left them.
    assert int(lines[lines.index("SigIgn:") + 1], 16) % (1 << 31) == 0
    assert lines[lines.index("SigBlk:") + 1] == "0" * 16
    assert lines[4:] == ["0", "1", "2", "3"]  # 3 is what `ls` reads


def test_run_tool_ends_what_takes_too_long() -> None:
    with pytest.raises(TimeoutError, match="sleep does not end within"):
        process.run_tool(["sleep", "600"], timeout_s=0.05)


# --- the process table -------------------------------------------------------------------


def test_a_signal_never_reaches_a_later_process_of_the_same_id() -> None:
    mine = procfs.stat(os.getpid())
    assert mine is not None
    assert not cleanup.send(mine._replace(started=mine.started - 1), 9)
    assert cleanup.send(mine, 0)


def test_a_segment_is_removed_once(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for file in (old, new):
        file.touch()
    segments = {(os.fsencode(old), old.stat().st_ino), (os.fsencode(new), new.stat().st_ino + 1)}
    cleanup.remove(segments)
    assert not old.exists()
    assert new.exists()  # somebody else's of the same name
    cleanup.remove(segments)


def test_a_segment_that_nobody_uses_any_more() -> None:
    """As ranks leave them that were killed before anybody had looked at them."""
    since = now() - 1
    path = Path(f"/dev/shm/mpich_shm_test_{os.getpid()}")
    path.write_bytes(bytes(mmap.PAGESIZE))
    try:
        segment = (os.fsencode(path), path.stat().st_ino)
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            assert segment not in cleanup.abandoned(since)
        assert segment not in cleanup.abandoned(since + 100_000)  # an earlier job's
        found = cleanup.abandoned(since)
        assert segment in found or not path.exists()  # a trial that ends just now removes it
    finally:
        path.unlink(missing_ok=True)


@st.composite
def forests(draw: st.DrawFn) -> list[Stat]:
    """Process tables: each process has a parent with a lower id, or 0."""
    size = draw(st.integers(1, 20))
    return [
        Stat(pid, 100 + pid, draw(st.integers(0, pid - 1)), state=draw(st.sampled_from("SZ")))
        for pid in range(1, size + 1)
    ]


@given(table=forests(), root=st.integers(1, 20))
def test_descendants_are_the_live_ones_whose_line_leads_to_the_root(
    table: list[Stat], root: int
) -> None:
    parents = {process.pid: process.parent for process in table}

    def leads_to_root(pid: int) -> bool:
        while pid := parents.get(pid, 0):
            if pid == root:
                return True
        return False

    found = descendants(reversed(table), [root])
    assert {each.pid for each in found} == {
        each.pid for each in table if not each.dead and leads_to_root(each.pid)
    }
    assert len(found) == len(set(found))


def test_descendants_end_where_the_table_is_torn() -> None:
    """A table read while ids are reused may hold a circle."""
    circle = [Stat(2, 1, 3), Stat(3, 1, 2)]
    assert {each.pid for each in descendants(circle, [2])} == {3}
