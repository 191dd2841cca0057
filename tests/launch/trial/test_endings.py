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
from tuner.launch.objectives import objective_for
from tuner.launch.trial import classifier as endings
from tuner.launch.trial.classifier import OutcomeClassifier
from tuner.model import Failed, FailureKind, Finished, Launch, LauncherInfo, RankView, Stopped

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


def failed(found: Finished | Stopped | Failed) -> Failed:
    assert isinstance(found, Failed)
    return found


def test_a_supervisor_that_was_killed_says_nothing_of_the_setting(
    ending: OutcomeClassifier,
) -> None:
    found = failed(ending.classify(exit_of(None, stopped=True, lost=True), None, ()))
    assert found.kind is FailureKind.INTERRUPTED and "supervisor" in found.reason


@pytest.mark.parametrize(("code", "name"), [(-9, "SIGKILL"), (-15, "SIGTERM"), (-1, "SIGHUP")])
def test_nor_does_an_mpirun_that_somebody_has_ended(
    ending: OutcomeClassifier, code: int, name: str
) -> None:
    found = failed(ending.classify(exit_of(code), None, ()))
    assert found == Failed(FailureKind.INTERRUPTED, f"mpirun was ended by {name} from outside")


def test_an_mpirun_that_crashed_did_so_itself(ending: OutcomeClassifier) -> None:
    assert failed(ending.classify(exit_of(-11), None, ())).kind is FailureKind.CRASHED


def test_a_torchrun_that_somebody_has_ended_is_called_so(ending: OutcomeClassifier) -> None:
    ending = replace(ending, spec=TORCHRUN)
    found = failed(ending.classify(exit_of(-15), None, ()))
    assert found.reason == "torchrun was ended by SIGTERM from outside"


def test_torchrun_starts_no_mpi(ending: OutcomeClassifier) -> None:
    ranks = tuple(
        RankView(n, 1, 0, (), world_size=1, mpi_library="Open MPI v5.0.11") for n in range(2)
    )
    found = failed(replace(ending, spec=TORCHRUN).classify(exit_of(0), None, ranks))
    assert found.kind is FailureKind.WRONG_WORLD
    assert "runs under Open MPI v5.0.11, which torchrun does not start" in found.reason


def test_a_kill_counted_in_its_own_cgroup_is_a_want_of_memory(ending: OutcomeClassifier) -> None:
    (ending.launch.folder / OUTPUT).write_text(KILLED)
    assert failed(ending.classify(exit_of(137), None, ())).kind is FailureKind.CRASHED
    assert (
        failed(ending.classify(exit_of(137, oom_kills=1), None, ())).kind
        is FailureKind.OUT_OF_MEMORY
    )
    assert (
        failed(ending.classify(exit_of(-9, oom_kills=1), None, ())).kind
        is FailureKind.OUT_OF_MEMORY
    )


def test_so_is_one_that_the_host_counted_meanwhile(
    ending: OutcomeClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ending.launch.folder / OUTPUT).write_text(KILLED)
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(endings, "VMSTAT", vmstat)
    assert endings.oom_kills() == 0
    vmstat.write_text("nr_free_pages 5\noom_kill 4\n")
    before = OutcomeClassifier(ending.launch, SPEC, ending.objective, None)
    assert failed(before.classify(exit_of(137), None, ())).kind is FailureKind.CRASHED
    vmstat.write_text("nr_free_pages 5\noom_kill 5\n")
    assert failed(before.classify(exit_of(137), None, ())).kind is FailureKind.OUT_OF_MEMORY


def test_its_own_cgroup_is_believed_whatever_the_program_prints(
    ending: OutcomeClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's count may be of others' processes."""
    (ending.launch.folder / OUTPUT).write_text("ValueError: the pipe is closed\n")
    assert (
        failed(ending.classify(exit_of(1, oom_kills=1, oom_kills_own=True), None, ())).kind
        is FailureKind.OUT_OF_MEMORY
    )
    assert failed(ending.classify(exit_of(1, oom_kills=1), None, ())).kind is FailureKind.CRASHED
    assert (
        failed(ending.classify(exit_of(139, oom_kills=1, oom_kills_own=True), None, ())).kind
        is FailureKind.CRASHED
    )
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(endings, "VMSTAT", vmstat)
    vmstat.write_text("oom_kill 4\n")
    before = OutcomeClassifier(ending.launch, SPEC, ending.objective, None)
    vmstat.write_text("oom_kill 5\n")
    assert failed(before.classify(exit_of(1), None, ())).kind is FailureKind.CRASHED


def test_what_the_host_counts_is_not_asked_where_its_own_cgroup_counts(
    ending: OutcomeClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's process was out of memory meanwhile."""
    (ending.launch.folder / OUTPUT).write_text(KILLED)
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(endings, "VMSTAT", vmstat)
    vmstat.write_text("oom_kill 4\n")
    before = OutcomeClassifier(ending.launch, SPEC, ending.objective, None)
    vmstat.write_text("oom_kill 5\n")
    assert failed(before.classify(exit_of(137, oom_kills=0), None, ())).kind is FailureKind.CRASHED


def test_a_hang_after_a_worker_was_killed_for_memory_is_that(ending: OutcomeClassifier) -> None:
    assert ending.classify(exit_of(-15, stopped=True), STALLED, ()) == STALLED
    found = failed(ending.classify(exit_of(-15, stopped=True, oom_kills=1), STALLED, ()))
    assert found.kind is FailureKind.OUT_OF_MEMORY and STALLED.reason in found.reason


def test_a_finished_launch_stays_finished_whatever_the_host_counts(
    ending: OutcomeClassifier,
) -> None:
    assert ending.classify(exit_of(0, oom_kills=1), None, ()) == Finished(1.5, 5)


NO_SPACE = "OSError: [Errno 28] No space left on device"
ROOM = {"f_blocks": 1 << 20, "f_bavail": 1 << 19, "f_files": 9999, "f_favail": 9999, "f_flag": 0}
Disks = Callable[..., None]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    """Sets what the disks have: of all, and of one of them."""

    def have(at: Path | None = None, **other: int) -> None:
        def statvfs(path: Path) -> SimpleNamespace:
            path.stat()
            of = other if at is None or path == at else {}
            return SimpleNamespace(**{"f_frsize": 4096, **ROOM, **of})

        monkeypatch.setattr(os, "statvfs", statvfs)

    return have


def said(ending: OutcomeClassifier, text: str) -> Failed:
    (ending.launch.folder / OUTPUT).write_text(text + "\n")
    return failed(ending.classify(exit_of(1), None, ()))


@pytest.mark.parametrize("what", [{"f_bavail": 100}, {"f_favail": 0}])
def test_a_full_disk_is_believed_where_one_is(
    ending: OutcomeClassifier, disks: Disks, what: dict[str, int]
) -> None:
    disks(**what)
    found = said(ending, NO_SPACE)
    assert found == Failed(FailureKind.DISK_FULL, f"exit code 1: the disk is full: {NO_SPACE}")


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"f_files": 0, "f_favail": 0},  # Btrfs counts none
        {"f_blocks": 0, "f_bavail": 0},  # it does not say
        {"f_bavail": 0, "f_flag": os.ST_RDONLY},  # an image, which is always full
    ],
)
def test_where_all_have_room_it_is_a_failure_of_the_setting(
    ending: OutcomeClassifier, disks: Disks, what: dict[str, int]
) -> None:
    disks(**what)
    found = said(ending, NO_SPACE)
    assert found.kind is FailureKind.CRASHED
    assert NO_SPACE in found.reason and "have room" in found.reason


def test_each_of_its_disks_is_asked(
    ending: OutcomeClassifier, disks: Disks, tmp_path: Path
) -> None:
    outputs, temporary, data = tmp_path / "out", tmp_path / "tmp", tmp_path / "data"
    for folder in (outputs, temporary, data):
        folder.mkdir()
    launch = replace(ending.launch, out_dir=outputs, env={"TMPDIR": str(temporary)})
    ending = replace(ending, launch=launch)
    for place in (outputs, temporary, data, Path("/tmp")):
        disks(place, f_bavail=0)
        text = f"{NO_SPACE}: '{data}/run/snapshot'"
        assert said(ending, text).kind is FailureKind.DISK_FULL, place
    disks(Path("/"), f_bavail=0)
    assert said(ending, NO_SPACE).kind is FailureKind.CRASHED


def test_a_quota_is_believed(ending: OutcomeClassifier, disks: Disks) -> None:
    disks()
    found = said(ending, "OSError: [Errno 122] Disk quota exceeded: 'snapshot'")
    assert found.kind is FailureKind.DISK_FULL


def test_a_place_that_cannot_be_asked_is_not_full(
    ending: OutcomeClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Path) -> None:
        raise OSError

    monkeypatch.setattr(os, "statvfs", gone)
    assert said(ending, NO_SPACE).kind is FailureKind.CRASHED
