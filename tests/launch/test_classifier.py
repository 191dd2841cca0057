"""What a launch came to, by how its command ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.study_surface import SPEC
from tuner.hosts.process import OUTPUT, Exit
from tuner.launch import trial
from tuner.launch.objectives import objective_for
from tuner.launch.trial import OutcomeClassifier
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    Launch,
    LauncherInfo,
    Layout,
    RankView,
    Stopped,
)

KILLED = (
    "-" * 74 + "\nprterun noticed that process rank 1 exited on signal 9 (Killed).\n" + "-" * 74
)
TORCHRUN = replace(SPEC, launcher=LauncherInfo("torchrun", "/bin/torchrun", "2.13.0"))
STALLED = Failed(FailureKind.STALLED, "nothing happened for 9 s: rank 1 is idle")


def exit_of(code: int | None, **more: object) -> Exit:
    return Exit(code, **{"wall_s": 1.0, "stopped": False, "killed": 0, **more})  # type: ignore[arg-type]


@pytest.fixture
def ending(tmp_path: Path) -> OutcomeClassifier:
    (tmp_path / "log").write_text('[{"iteration": 5, "elapsed_time": 1.5}]')
    launch = Launch(("mpirun",), {}, tmp_path, tmp_path, tmp_path)
    return OutcomeClassifier(launch, SPEC, objective_for(SPEC.objective), None)


def failed(ending: Finished | Stopped | Failed) -> Failed:
    assert isinstance(ending, Failed)
    return ending


def test_an_end_from_outside_says_nothing_of_the_setting(ending: OutcomeClassifier) -> None:
    for exit_, reason in (
        (exit_of(None, stopped=True, lost=True), "its supervisor was ended from outside"),
        (exit_of(-9), "mpirun was ended by SIGKILL from outside"),
        (exit_of(-15), "mpirun was ended by SIGTERM from outside"),
    ):
        assert ending.classify(exit_, None, ()) == Failed(FailureKind.INTERRUPTED, reason)
    assert failed(ending.classify(exit_of(-11), None, ())).kind is FailureKind.CRASHED


def test_a_lost_host_is_no_result_though_mpirun_says_all_is_well(ending: OutcomeClassifier) -> None:
    rule = "-" * 74
    text = f"{rule}\nPRTE has lost communication with a remote daemon.\n{rule}\n"
    (ending.launch.folder / OUTPUT).write_text(text)
    on_two = replace(SPEC, layout=Layout(2, ("h1", "h2"), (1, 1)))
    found = failed(replace(ending, spec=on_two).classify(exit_of(0), None, ()))
    assert found.kind is FailureKind.LOST_HOST
    assert "lost communication" in found.reason
    assert isinstance(ending.classify(exit_of(0), None, ()), Finished), "on one host it is a text"


@pytest.mark.parametrize(
    ("text", "host_kills", "exit_", "is_memory"),
    [
        (KILLED, 1, exit_of(137), True),
        (KILLED, 0, exit_of(137, oom_kills=1), True),
        # Its own control group is believed; the host counts other processes too.
        (KILLED, 1, exit_of(137, oom_kills=0), False),
        ("ValueError: the pipe is closed\n", 0, exit_of(1, oom_kills=1, oom_kills_own=True), True),
    ],
)
def test_a_kill_that_the_kernel_counted_is_a_want_of_memory(
    ending: OutcomeClassifier,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    host_kills: int,
    exit_: Exit,
    is_memory: bool,
) -> None:
    (ending.launch.folder / OUTPUT).write_text(text)
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(trial, "VMSTAT", str(vmstat))
    vmstat.write_text("nr_free_pages 5\noom_kill 4\n")
    ending = OutcomeClassifier(ending.launch, SPEC, ending.objective, None)
    vmstat.write_text(f"nr_free_pages 5\noom_kill {4 + host_kills}\n")
    found = failed(ending.classify(exit_, None, ()))
    assert found.kind is (FailureKind.OUT_OF_MEMORY if is_memory else FailureKind.CRASHED)


@pytest.mark.parametrize(
    ("full", "said"),
    [
        (5, "; its figure was complete before: it is the end of the program that fails"),
        (9, ""),
        (None, ""),
    ],
)
def test_a_failure_after_the_work_was_done_is_told(
    ending: OutcomeClassifier, full: int | None, said: str
) -> None:
    crashed = failed(replace(ending, expected_iterations=full).classify(exit_of(139), None, ()))
    assert crashed.kind is FailureKind.CRASHED
    assert said in crashed.reason and ("complete" in crashed.reason) == bool(said)


def test_a_hidden_exit_code_does_not_make_a_result(ending: OutcomeClassifier) -> None:
    output = ending.launch.folder / OUTPUT
    for line, kind in (
        ("ValueError: halo of 4", FailureKind.CRASHED),
        ("MemoryError: 9 GiB", FailureKind.OUT_OF_MEMORY),
    ):
        text = f'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n{line}\n'
        output.write_text(text)
        found = failed(ending.classify(exit_of(0), None, ()))
        assert found.kind is kind and line in found.reason and found.log_tail == text.rstrip()
        assert "died, though the exit code is 0" in found.reason
        output.write_text(f"{text}went on\n")
        assert isinstance(ending.classify(exit_of(0), None, ()), Finished)
        ranks = (RankView(0, 1, 0, ()), RankView(1, 1, 0, (), uncaught="ValueError"))
        found = failed(ending.classify(exit_of(0), None, ranks))
        assert found.kind is kind
    output.write_text("buffered lines come below the traceback\n")
    assert "ValueError ended rank 1" in failed(ending.classify(exit_of(0), None, ranks)).reason


def test_torchrun_starts_no_mpi(ending: OutcomeClassifier) -> None:
    ranks = tuple(
        RankView(n, 1, 0, (), world_size=1, mpi_library="Open MPI v5.0.11") for n in range(2)
    )
    found = failed(replace(ending, spec=TORCHRUN).classify(exit_of(0), None, ranks))
    assert found.kind is FailureKind.WRONG_WORLD
    assert "runs under Open MPI v5.0.11, which torchrun does not start" in found.reason


def test_a_hang_after_a_worker_was_killed_for_memory_is_that(ending: OutcomeClassifier) -> None:
    assert ending.classify(exit_of(-15, stopped=True), STALLED, ()) == STALLED
    found = failed(ending.classify(exit_of(-15, stopped=True, oom_kills=1), STALLED, ()))
    assert found.kind is FailureKind.OUT_OF_MEMORY and STALLED.reason in found.reason
    assert ending.classify(exit_of(0, oom_kills=1), None, ()) == Finished(1.5, 5)


NO_SPACE = "OSError: [Errno 28] No space left on device"
ROOM = {"f_blocks": 1 << 20, "f_bavail": 1 << 19, "f_files": 9999, "f_favail": 9999, "f_flag": 0}


@pytest.fixture
def kind_with(
    ending: OutcomeClassifier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., FailureKind]:
    """Says what a launch came to that printed this, if all disks, or one, have so much room."""

    def kind(text: str = NO_SPACE, at: Path | None = None, **room: int) -> FailureKind:
        def statvfs(path: Path) -> SimpleNamespace:
            own = room if at in {None, path} else {}
            return SimpleNamespace(**{"f_frsize": 4096, **ROOM, **own})

        monkeypatch.setattr(os, "statvfs", statvfs)
        (ending.launch.folder / OUTPUT).write_text(text + "\n")
        launch = replace(ending.launch, env={"TMPDIR": str(tmp_path / "tmp")})
        return failed(replace(ending, launch=launch).classify(exit_of(1), None, ())).kind

    return kind


@pytest.mark.parametrize(
    ("room", "is_full"),
    [
        ({"f_bavail": 100}, True),
        ({"f_favail": 0}, True),
        ({}, False),
        ({"f_files": 0, "f_favail": 0}, False),  # Btrfs counts none
        ({"f_blocks": 0, "f_bavail": 0}, False),  # it does not say
        ({"f_bavail": 0, "f_flag": os.ST_RDONLY}, False),  # an image, which is always full
    ],
)
def test_a_full_disk_is_believed_if_one_is(
    kind_with: Callable[..., FailureKind], room: dict[str, int], is_full: bool
) -> None:
    assert kind_with(**room) is (FailureKind.DISK_FULL if is_full else FailureKind.CRASHED)


def test_each_of_its_disks_is_asked_and_a_quota_is_believed(
    kind_with: Callable[..., FailureKind], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "data").mkdir()
    text = f"{NO_SPACE}: '{tmp_path}/data/snapshot'"
    for place in (tmp_path, tmp_path / "tmp", tmp_path / "data", Path("/tmp")):
        assert kind_with(text, at=place, f_bavail=0) is FailureKind.DISK_FULL, place
    assert kind_with(text, at=Path("/"), f_bavail=0) is FailureKind.CRASHED
    quota = "OSError: [Errno 122] Disk quota exceeded: 'snapshot'"
    assert kind_with(quota) is FailureKind.DISK_FULL
