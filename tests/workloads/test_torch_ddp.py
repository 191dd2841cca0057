"""The PyTorch trainer's own parts, and how its ranks meet without MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

import torch_ddp
import torch_world
from torch_training import EpochOrder, network_of
from torch_world import JobPlace, World, place

torch = pytest.importorskip("torch")

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


def test_ranks_that_do_not_come_are_missed_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch_world, "PATIENCE_S", 0.1)
    rank_0_of_2 = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    assert torch_ddp.main(("--out", str(tmp_path)), rank_0_of_2) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "torch_ddp" in line]
    assert line.startswith("torch_ddp.py: error: the 2 ranks did not meet: ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--batch",), "unrecognized arguments: --batch (see --help)"),
        (("--data", "/nothing"), "--data /nothing: cannot be read: No such file or directory"),
        (("--out", "/dev/null/out"), "Not a directory"),
    ],
)
def test_a_refusal_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    assert torch_ddp.main(("--out", str(tmp_path / "out"), *argv), {}) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "torch_ddp" in line]
    assert line.startswith("torch_ddp.py: error: ") and said in line


def test_the_order_is_an_epochs_own() -> None:
    first, other = (EpochOrder(10, World(rank, 2), 0) for rank in (0, 1))
    assert len(first) == len(list(first)) == 5
    assert {*first, *other} == set(range(10))
    first.epoch = other.epoch = 2
    assert {*first, *other} == set(range(20, 30))
    assert list(EpochOrder(4, World(0, 2), None)) == [0, 2]


@pytest.mark.parametrize("arch", ["small", "resnet50"])
def test_a_network_scores_each_class(arch: str) -> None:
    if arch == "resnet50":
        pytest.importorskip("torchvision")
    network = network_of(arch, 7).eval()
    assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 7)
