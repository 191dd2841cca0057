"""Which rank a process is, and how ranks meet without MPI."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from workloads import torch_ddp, torch_world
from workloads.torch_world import MEETING, MeetingError, Place, World, meet, place

T = TypeVar("T")

ADDRESS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
TORCH = {"RANK": "3", "WORLD_SIZE": "4"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, Place(0, 1, by_address=False)),
        (OPENMPI, Place(1, 2, by_address=False)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, Place(1, 2, by_address=False)),
        (OPENMPI | ADDRESS, Place(1, 2, by_address=True)),
        (TORCH, Place(0, 1, by_address=False)),  # a cluster's, with no place to meet
        (TORCH | ADDRESS, Place(3, 4, by_address=True)),
        (OPENMPI | TORCH | ADDRESS, Place(1, 2, by_address=True)),
        (OPENMPI | TORCH | {"TORCHELASTIC_RUN_ID": "a"}, Place(3, 4, by_address=True)),
        ({"PMI_RANK": "one", "PMI_SIZE": "2"}, Place(0, 1, by_address=False)),
    ],
)
def test_its_place_is_what_started_it_says(environ: dict[str, str], found: Place) -> None:
    assert place(environ) == found


def as_ranks(size: int, folder: Path, then: Callable[[World], T]) -> list[T]:
    """Do something on ranks that are threads."""

    def run(rank: int) -> T:
        return then(meet(Place(rank, size, by_address=False), folder))

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


def speak(world: World) -> list[str]:
    said = world.allgather(f"of {world.rank}")
    world.leave()
    return said


def test_ranks_meet_whatever_an_earlier_job_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from torch.distributed import TCPStore

    monkeypatch.setattr(torch_world, "_ANSWER_S", 1.0)
    other = TCPStore("localhost", 0, 3, is_master=True, wait_for_workers=False)
    # The first is gone, at the second somebody else listens now.
    for left in ([socket.gethostname(), port, "0"] for port in (9, other.port)):
        (tmp_path / MEETING).write_text(json.dumps(left))
        texts = as_ranks(3, tmp_path, speak)
        assert texts == [["of 0", "of 1", "of 2"]] * 3
        assert list(tmp_path.iterdir()) == []


def test_neighbours_are_the_ranks_of_a_host(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    def neighbours(world: World) -> tuple[int, int]:
        found = world.neighbours()
        world.leave()
        return found

    assert as_ranks(2, tmp_path / "new", neighbours) == [(0, 2), (1, 2)]
    assert meet(Place(0, 1, by_address=False), tmp_path).neighbours() == (0, 1)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        meet(Place(0, 2, by_address=False), tmp_path / "file")


def test_ranks_that_do_not_come_are_missed_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(torch_world, "PATIENCE_S", 0.1)
    with pytest.raises(MeetingError, match="the 2 ranks did not meet: rank 0 has not written"):
        meet(Place(1, 2, by_address=False), tmp_path)
    with socket.socket() as held:
        held.bind(("localhost", 0))
        port = str(held.getsockname()[1])
        where = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "2"}
        for name, value in where.items():  # torch reads them by itself
            monkeypatch.setenv(name, value)
        assert torch_ddp.main(("--out", str(tmp_path)), os.environ) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "torch_ddp" in each]
    assert line.startswith("torch_ddp.py: error: the 2 ranks did not meet: ")
