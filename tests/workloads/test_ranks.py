"""Steps that all ranks agree on, and the profile of each."""

from __future__ import annotations

import pstats
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from workloads.ranks import RefusedError, end_with_threads, profiled, together


class World:
    """One rank's view of a job whose other ranks have refused with ``others``."""

    def __init__(self, rank: int, *others: str | None) -> None:
        self.rank = rank
        self.others = list(others)
        self.barriers = 0

    def allgather(self, sendobj: str | None) -> list[str | None]:
        gathered = list(self.others)
        gathered.insert(self.rank, sendobj)
        return gathered

    def Barrier(self) -> None:
        self.barriers += 1


def refuse() -> int:
    raise ValueError("no such thing")


def test_the_result_of_the_step_is_given_where_all_succeed() -> None:
    world = World(1, None, None)
    assert together(world, lambda: 7, refusals=(ValueError,), prog="p") == 7


def test_rank_0_says_why_once(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(0, "other", "other")
    with pytest.raises(RefusedError):
        together(world, refuse, refusals=(ValueError,), prog="p.py")
    assert capsys.readouterr().err == "p.py: error: no such thing\n"
    assert world.barriers == 1


def test_rank_0_speaks_for_another(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RefusedError):
        together(World(0, None, "only here"), lambda: 7, refusals=(ValueError,), prog="p.py")
    assert capsys.readouterr().err == "p.py: error: only here\n"


def test_the_others_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(1, "no such thing")
    with pytest.raises(RefusedError):
        together(world, refuse, refusals=(ValueError,), prog="p.py")
    assert capsys.readouterr().err == ""
    assert world.barriers == 1


def test_an_unexpected_error_passes() -> None:
    with pytest.raises(ValueError, match="no such thing"):
        together(World(0), refuse, refusals=(KeyError,), prog="p.py")


def test_each_rank_has_its_profile(tmp_path: Path) -> None:
    for rank in (0, 3):
        with profiled(tmp_path / "new folder", rank):
            sorted([2, 1])
    names = sorted(path.name for path in (tmp_path / "new folder").iterdir())
    assert names == ["rank-0.prof", "rank-3.prof"]
    stats = pstats.Stats(str(tmp_path / "new folder" / "rank-3.prof"))
    assert any(name == "<built-in method builtins.sorted>" for _, _, name in vars(stats)["stats"])


def test_a_failure_is_profiled_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such"), profiled(tmp_path, 0):
        refuse()
    assert (tmp_path / "rank-0.prof").exists()


def test_no_folder_no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with profiled(None, 0):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_thread_that_fails_ends_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    class Job:
        aborted: ClassVar[list[int]] = []

        def Abort(self, errorcode: int) -> None:
            self.aborted.append(errorcode)

    def fail(error: Exception) -> None:
        raise error

    before = threading.excepthook
    try:
        end_with_threads(Job(), refusals=(ValueError,), prog="p.py")
        for error in (ValueError("no images"), RuntimeError("a defect")):
            thread = threading.Thread(target=fail, args=(error,))
            thread.start()
            thread.join()
    finally:
        threading.excepthook = before
    said = capsys.readouterr().err
    assert said.startswith("p.py: error: no images\n")
    assert said.count("Traceback") == 1 and "RuntimeError: a defect" in said
    assert Job.aborted == [1, 1]
