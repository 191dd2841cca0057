"""Steps that all ranks agree on, and how a job ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ranks
from chainer_mnist import parse
from ranks import JobRefusedError, end_with_threads, together
from trainer_options import WorkloadError


class FakeWorld:
    """One rank's view of a job whose other ranks have refused with ``others``."""

    def __init__(self, rank: int, *others: str | None) -> None:
        self.rank = rank
        self.others = list(others)
        self.barriers = 0
        self.aborted: list[int] = []

    def allgather(self, sendobj: str | None) -> list[str | None]:
        gathered = list(self.others)
        gathered.insert(self.rank, sendobj)
        return gathered

    def Barrier(self) -> None:
        self.barriers += 1

    def Abort(self, code: int) -> None:
        self.aborted.append(code)


def refuse() -> int:
    raise WorkloadError("no such thing")


@pytest.mark.parametrize(
    ("world", "refuses", "said"),
    [
        (FakeWorld(0, "other", "other"), True, "p.py: error: no such thing\n"),
        (FakeWorld(0, None, "only here"), False, "p.py: error: only here\n"),
        (FakeWorld(1, "no such thing"), True, ""),
    ],
)
def test_rank_0_says_why_once(
    world: FakeWorld, refuses: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(JobRefusedError):
        together(world, refuse if refuses else lambda: 7, "p.py")
    assert capsys.readouterr().err == said
    assert world.barriers == 1


def test_a_thread_that_fails_ends_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(error: Exception) -> None:
        raise error

    job = FakeWorld(0)
    before = threading.excepthook
    try:
        end_with_threads(job, "p.py")
        for error in (WorkloadError("no images"), RuntimeError("a defect")):
            thread = threading.Thread(target=fail, args=(error,))
            thread.start()
            thread.join()
    finally:
        threading.excepthook = before
    said = capsys.readouterr().err
    assert said.startswith("p.py: error: no images\n")
    assert said.count("Traceback") == 1 and "RuntimeError: a defect" in said
    assert job.aborted == [1, 1]


def test_rank_0_makes_the_folders_and_leaves_them_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "c"
    ranks.make_folder(parse(["--out", str(folder)]), 1)
    assert not folder.exists()
    ranks.make_folder(parse(["--out", str(folder)]), 0)
    assert list(folder.iterdir()) == []
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "out"
    with pytest.raises(WorkloadError) as caught:
        ranks.make_folder(parse(["--out", str(below)]), 0)
    assert str(caught.value) == f"--out {below}: cannot write there: Not a directory"
