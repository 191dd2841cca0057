"""The PyTorch trainer's own parts, without a job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workloads import needs, torch_ddp, torch_networks
from workloads.host import Gpus
from workloads.torch_loading import Order
from workloads.torch_options import TorchOptions, parse
from workloads.trainer_options import WorkloadError


def options(*argv: str) -> TorchOptions:
    return parse("torch_ddp.py", "", argv)


def test_the_defaults_are_the_librarys() -> None:
    found = options("--benchmark")
    assert (found.loaderjob, found.prefetch, found.start_method) == (None, 2, None)
    assert options("-j", "0").loaderjob == 0
    assert (found.backend, found.pin_memory, found.bucket_mb) == ("gloo", False, None)
    assert (found.images.arch, options("--gpu").images.arch) == ("small", "resnet50")
    assert options("--gpu", "--pin-memory", "yes").backend == "nccl"
    assert options("--gpu", "--backend", "gloo").backend == "gloo"


@pytest.mark.parametrize("flags", [("--backend", "nccl"), ("--pin-memory", "yes")])
def test_what_needs_a_gpu_is_refused_without(flags: tuple[str, ...]) -> None:
    with pytest.raises(WorkloadError, match=f"{' '.join(flags)}: needs --gpu"):
        options(*flags)


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        (Gpus(missing="PyTorch finds no CUDA device"), "no usable GPU .PyTorch finds no CUDA"),
        (Gpus(1, nccl=True), "2 ranks on a host with 1 GPUs"),
        (Gpus(2, nccl=False), "this PyTorch has no NCCL; use --backend gloo"),
    ],
)
def test_gpus_that_are_not_there(
    gpus: Gpus, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_ddp, "find_gpus", lambda: gpus)
    monkeypatch.setattr(torch_ddp, "_has_nccl", lambda: gpus.nccl)
    with pytest.raises(WorkloadError, match=reason):
        torch_ddp.check(options("--gpu", "--out", str(tmp_path)), 0, 2)


def test_pytorch_is_asked_for_its_gpus() -> None:
    torch = pytest.importorskip("torch")
    found = torch_ddp.find_gpus()
    assert found.count == torch.cuda.device_count()
    assert bool(found.missing) == (found.count == 0)


def test_a_refusal_is_one_line_from_rank_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    argv = ("--out", str(tmp_path / "out"), "--data", str(tmp_path / "nothing"))

    def run(rank: int) -> int:
        rank_of = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
        return torch_ddp.main(argv, rank_of)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [2, 2]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"torch_ddp.py: error: --data {tmp_path}/nothing: cannot be read")


def test_a_wrong_flag_is_one_line_from_rank_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needs, "LAST_WORD_S", 0.0)
    for rank in ("0", "1"):
        assert torch_ddp.main(["--batch"], {"PMI_RANK": rank, "PMI_SIZE": "2"}) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "torch_ddp.py: error: unrecognized arguments: --batch (see --help)"


def test_the_order_is_an_epochs_own() -> None:
    first, other = (Order(10, rank=rank, ranks=2, seed=0) for rank in (0, 1))
    assert len(first) == len(list(first)) == 5
    assert {*first, *other} == set(range(10))
    first.epoch = other.epoch = 2
    assert {*first, *other} == set(range(20, 30))
    assert list(Order(4, rank=0, ranks=2, seed=None)) == [0, 2]


@pytest.mark.parametrize(
    ("arch", "classes", "parameters"),
    # 25,557,032 for 1000 classes is what every ResNet-50 has.
    [("resnet50", 1000, 25_557_032), ("small", 10, 1216 + 4640 + 18_496 + 650)],
)
def test_the_networks(arch: str, classes: int, parameters: int) -> None:
    torch = pytest.importorskip("torch")
    network = torch_networks.make(arch, classes).eval()
    assert sum(part.numel() for part in network.parameters()) == parameters
    assert network(torch.zeros(1, 3, 64, 64)).shape == (1, classes)
