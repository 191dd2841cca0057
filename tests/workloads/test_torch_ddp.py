"""The PyTorch trainer's own parts, and how its ranks meet without MPI."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

import torch_ddp
import torch_world
from torch_training import EpochOrder, network_of
from torch_world import JobPlace, MeetingError, World, meet, place

torch = pytest.importorskip("torch")

T = TypeVar("T")

ADDRESS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
TORCH = {"RANK": "3", "WORLD_SIZE": "4"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, JobPlace(0, 1, by_address=False)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, JobPlace(1, 2, by_address=False)),
        (OPENMPI | ADDRESS, JobPlace(1, 2, by_address=True)),
        (TORCH, JobPlace(0, 1, by_address=False)),  # a cluster's, with no place to meet
        (TORCH | ADDRESS, JobPlace(3, 4, by_address=True)),
        (OPENMPI | TORCH | ADDRESS, JobPlace(1, 2, by_address=True)),
        (OPENMPI | TORCH | {"TORCHELASTIC_RUN_ID": "a"}, JobPlace(3, 4, by_address=True)),
        ({"PMI_RANK": "one", "PMI_SIZE": "2"}, JobPlace(0, 1, by_address=False)),
    ],
)
def test_a_ranks_place_is_what_its_launcher_says(environ: dict[str, str], found: JobPlace) -> None:
    assert place(environ) == found


def as_ranks(size: int, folder: Path, then: Callable[[World], T]) -> list[T]:
    """Do something on ranks that are threads."""

    def run(rank: int) -> T:
        world = meet(JobPlace(rank, size, by_address=False), folder)
        found = then(world)
        world.leave()
        return found

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


def test_ranks_meet_in_a_folder_and_leave_it_empty(tmp_path: Path) -> None:
    for _ in range(2):
        texts = as_ranks(3, tmp_path, lambda world: world.allgather(f"of {world.rank}"))
        assert texts == [["of 0", "of 1", "of 2"]] * 3
        assert list(tmp_path.iterdir()) == []


def test_ranks_that_do_not_come_are_missed_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch_world, "PATIENCE_S", 0.1)
    with pytest.raises(MeetingError, match="the 2 ranks did not meet: "):
        meet(JobPlace(1, 2, by_address=False), tmp_path)
    with socket.socket() as held:
        held.bind(("localhost", 0))
        port = str(held.getsockname()[1])
        where = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "2"}
        for name, value in where.items():  # torch reads them by itself
            monkeypatch.setenv(name, value)
        assert torch_ddp.main(("--out", str(tmp_path)), os.environ) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "torch_ddp" in each]
    assert line.startswith("torch_ddp.py: error: the 2 ranks did not meet: ")


def test_a_refusal_is_one_line_from_rank_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_ddp, "LAST_WORD_S", 0.0)
    argv = ("--out", str(tmp_path / "out"), "--data", str(tmp_path / "nothing"))

    def run(rank: int, argv: tuple[str, ...]) -> int:
        rank_of = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
        return torch_ddp.main(argv, rank_of)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda rank: run(rank, argv), range(2))) == [2, 2]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"torch_ddp.py: error: --data {tmp_path}/nothing: cannot be read")
    assert [run(rank, ("--batch",)) for rank in range(2)] == [2, 2]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "torch_ddp.py: error: unrecognized arguments: --batch (see --help)"


def test_the_order_is_an_epochs_own() -> None:
    first, other = (EpochOrder(10, World(rank, 2, None), 0) for rank in (0, 1))
    assert len(first) == len(list(first)) == 5
    assert {*first, *other} == set(range(10))
    first.epoch = other.epoch = 2
    assert {*first, *other} == set(range(20, 30))
    assert list(EpochOrder(4, World(0, 2, None), None)) == [0, 2]


@pytest.mark.parametrize("arch", ["small", "resnet50"])
def test_a_network_scores_each_class(arch: str) -> None:
    if arch == "resnet50":
        pytest.importorskip("torchvision")
    network = network_of(arch, 7).eval()
    assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 7)
