"""Starting and ending: the things that need no MPI, and what is removed of what is left."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import signals
from tests.marked import eventually
from tuner.hosts import process, procfs
from tuner.hosts.procfs import Stat
from tuner.hosts.supervisor import cleanup, serving
from tuner.hosts.supervisor.cleanup import MARKER, carriers, descendants
from tuner.model import Launch
from tuner.model.errors import TunerError

Run = Callable[..., "tuple[process.Exit, str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a launch to its end: how that came, and what it printed."""

    def run_launch(*argv: str, **fields: Any) -> tuple[process.Exit, str]:
        launch = Launch(argv, os.environ, tmp_path, tmp_path / "out", tmp_path)
        running = process.start(replace(launch, **fields))
        ended = running.wait(60.0)
        assert ended is not None and running.poll() is running.stop() is ended
        return ended, (tmp_path / process.OUTPUT).read_text()

    return run_launch


def test_the_exit_status_and_a_log_of_both_streams_for_the_user(tmp_path: Path, run: Run) -> None:
    log = tmp_path / process.OUTPUT
    log.write_text("of an earlier trial")
    log.chmod(0o644)
    ended, printed = run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (ended.code, ended.stopped, ended.killed, printed) == (7, False, 0, "out\nerr\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize(("narrowest", "kills"), [("memory.events", (3, False)), ("", (9, True))])
def test_kills_for_want_of_memory_around_us_are_not_those_of_the_host(
    narrowest: str, kills: tuple[int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {narrowest: b"oom 4\noom_kill 3\n", "vmstat": b"nr_free 1\noom_kill 9\n"}
    monkeypatch.setattr(procfs, "cgroup_folders", lambda *_: ["/group"])
    monkeypatch.setattr(procfs, "try_read", lambda name: texts.get(Path(name).name))
    assert serving._oom_kills() == kills


@pytest.mark.parametrize(("around", "kept"), [("of another", True), ("mine", False)])
def test_the_environment_is_the_one_given_and_a_marker_of_its_own(
    monkeypatch: pytest.MonkeyPatch, run: Run, around: str, kept: bool
) -> None:
    monkeypatch.delenv("HOME")  # as in a service of systemd: Open MPI does not start without it
    monkeypatch.setenv(process.MARKER, around)  # `tune` may itself run in a trial
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    _, printed = run("env", env=env | {process.MARKER: "mine"})
    variables = dict(line.split("=", 1) for line in printed.splitlines())
    assert variables.pop("HOME").startswith("/")
    marker = variables.pop(process.MARKER)
    assert (marker == "mine") == kept
    assert variables == {**env, "TMPDIR": f"/tmp/tune-{marker[:16]}"}


@pytest.mark.parametrize(
    ("argv", "env", "code"),
    [
        (("no-such-program-é",), {}, errno.ENOENT),
        (("./plain",), {}, errno.EACCES),
        (("true", "a\0b"), {}, errno.EINVAL),
        (("true",), {"A=B": "x"}, errno.EINVAL),
    ],
)
def test_what_cannot_be_started_is_named_and_nothing_stays_open(
    tmp_path: Path, run: Run, argv: tuple[str, ...], env: dict[str, str], code: int
) -> None:
    (tmp_path / "plain").touch()
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match=os.strerror(code)) as caught:
        run(*argv, env={**os.environ, **env})
    assert (caught.value.errno, caught.value.filename) == (code, argv[0])
    assert set(Path("/proc/self/fd").iterdir()) == before


COMPUTES_IN_A_THREAD = """
import os, threading
if not os.fork():
    threading.Thread(target=exec, args=("while True: pass",)).start()
"""
DAEMON = "( sleep 0.2; {last} ) </dev/null >/dev/null 2>&1 & exit 0"


def test_what_goes_on_after_the_command_is_killed_or_waited_for(tmp_path: Path, run: Run) -> None:
    ended, _ = run("sh", "-c", DAEMON.format(last="while :; do :; done"))
    assert ended.left_running == (("sh", True),) and ended.killed
    ended, _ = run(sys.executable, "-c", COMPUTES_IN_A_THREAD)
    assert [computes for _, computes in ended.left_running] == [True]
    last = DAEMON.format(last=f"sleep 0.4; echo > {tmp_path}/done")
    ended, _ = run("sh", "-c", last, waits_for_children=True)
    assert (ended.left_running, ended.killed) == ((), 0)
    assert ended.wall_s >= 0.6 and (tmp_path / "done").exists()


def test_what_cannot_be_killed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = process.start(Launch(("true",), os.environ, tmp_path, tmp_path / "out", tmp_path))
    answer = {"code": 0, "wall_s": 1.0, "stopped": False, "killed": 3, "left": [4, 5]}
    monkeypatch.setattr(running, "_receive", lambda _: dict(answer))
    for end in (running.poll, running.stop):
        with pytest.raises(TunerError, match=r"do not end on SIGKILL: \[4, 5\]"):
            end()


def test_the_command_inherits_three_descriptors_and_no_ignored_signal(run: Run) -> None:
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # as of nohup, or CI
    handlers = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    before = set(Path("/proc/self/fd").iterdir())
    try:
        _, printed = run("sh", "-c", "grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd")
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
    assert signals.of_status(printed, "SigIgn") == signals.of_status(printed, "SigBlk") == set()
    assert printed.split()[4:] == ["0", "1", "2", "3"]  # 3 is what `ls` reads
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_run_tool_ends_what_prints_without_an_end() -> None:
    with pytest.raises(TimeoutError, match="yes prints without an end"):
        process.run_tool(["yes"], timeout_s=600)


def test_all_goes_and_no_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside").mkdir()
    kept = tmp_path / "outside/kept"
    kept.touch()
    folder = tmp_path / "tune-1"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    os.mkfifo(folder / "pipe")
    (folder / "folder").symlink_to(kept.parent)
    (folder / "file").symlink_to(kept)
    with monkeypatch.context() as patch:
        line = f"36 35 98:0 / {folder}/closed rw - ext4 /dev/x rw\n".encode()
        patch.setattr(cleanup, "read", lambda _: line)
        cleanup.remove_folder(str(folder))
        assert folder.exists(), "something is mounted below it"
    cleanup.remove_folder(str(folder))
    assert not folder.exists()
    folder.symlink_to(kept.parent)  # in its place
    cleanup.remove_folder(str(folder))
    assert folder.is_symlink() and kept.exists()


@pytest.mark.parametrize("access", [mmap.ACCESS_WRITE, mmap.ACCESS_READ])
def test_a_segment_of_an_mpi_goes_unless_it_is_older_or_somebody_has_mapped_it(
    monkeypatch: pytest.MonkeyPatch, access: int
) -> None:
    name = f"/dev/shm/tune_test_{os.getpid()}"
    # An MPI's own name would be swept by the launches of other tests.
    monkeypatch.setattr(cleanup, "_SEGMENTS", (f"{name}_",))
    segment, other = Path(f"{name}_1"), Path(name)
    for path in (segment, other):
        path.write_bytes(bytes(mmap.PAGESIZE))
    try:
        cleanup.remove_segments(cleanup.now() + 100_000)
        assert segment.exists(), "an earlier job's"
        with segment.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=access)
        with mapped:
            cleanup.remove_segments(cleanup.now() - 100)
            assert segment.exists()
        cleanup.remove_segments(cleanup.now() - 100)
        assert not segment.exists() and other.exists()
    finally:
        segment.unlink(missing_ok=True)
        other.unlink()


@pytest.fixture
def child() -> Iterator[Stat]:
    with subprocess.Popen(["sleep", "600"], env={MARKER: "of the child"}) as process:
        stat = procfs.stat(process.pid)
        assert stat is not None
        yield stat
        process.kill()


def test_what_shows_no_environment_is_waited_for_only_while_it_may_get_one(child: Stat) -> None:
    answers = [b"", b"", b"A=b\0TUNE_TRIAL=mine\0"]  # in the middle of an exec
    assert carriers([child], "mine", environ=lambda _: answers.pop(0), wait_s=60) == [child]
    assert carriers([child], "mine", environ=lambda _: b"A=TUNE_TRIAL=mine") == []
    assert carriers([child], "mine", environ=lambda _: b"", wait_s=0.0) == []
    for other in (Stat(2, 0, 0, kernel=True), child._replace(started=1)):
        assert carriers([other], "mine", environ=lambda _: b"", wait_s=1e9) == []


def test_a_process_whose_main_thread_has_ended_is_known_by_another() -> None:
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start();"
        " ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", code], env={MARKER: "mine"}) as process:
        eventually(lambda: (stat := procfs.stat(process.pid)) is not None and stat.state == "Z")
        stat = procfs.stat(process.pid)
        found = [] if stat is None else carriers([stat], "mine")
        process.kill()
    assert found == [stat]


def test_descendants_are_alive_also_in_a_table_with_a_circle() -> None:
    table = [Stat(pid, 100 + pid, parent) for pid, parent in ((1, 6), (2, 1), (3, 2), (6, 1))]
    # The main thread of a zombie may have ended before the others.
    table += [Stat(4, 104, 3, state="Z"), Stat(5, 105, 4, state="Z", threads=2)]
    assert sorted(process.pid for process in descendants(table, [1])) == [2, 3, 5, 6]


def test_a_signal_never_reaches_a_later_process_of_the_same_id(child: Stat) -> None:
    assert not cleanup.send(child._replace(started=child.started - 1), 9)
    assert cleanup.send(child, 0)
