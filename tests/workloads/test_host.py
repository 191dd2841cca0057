"""Which options a host refuses, with and without GPUs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from workloads import host
from workloads.chainer_options import parse_mnist
from workloads.host import Gpus

NONE = Gpus(missing="CuPy is not installed")
TWO = Gpus(2, nccl=True)


def refusal(flags: str, *, ranks: int = 1, gpus: Gpus = NONE) -> str | None:
    return host.refusal(parse_mnist("trainer.py", "", flags.split()), ranks, gpus)


@pytest.mark.parametrize("flags", ["", "--communicator naive", "--benchmark --loaderjob 3"])
def test_the_cpu_serves_any_number_of_ranks(flags: str) -> None:
    assert refusal(flags, ranks=64) is None


@pytest.mark.parametrize(
    "flags",
    [
        "--gpu",
        "--gpu --communicator naive",
        "--gpu --communicator flat",
        "--gpu --communicator dummy",
        "--gpu --fp16-gradients --double-buffering",
    ],
)
def test_gpus_serve_as_many_ranks(flags: str) -> None:
    assert refusal(flags, ranks=2, gpus=TWO) is None


@pytest.mark.parametrize(
    ("flags", "ranks", "gpus", "words"),
    [
        ("--gpu", 1, NONE, "--gpu: no usable GPU (CuPy is not installed)"),
        ("--communicator flat", 1, NONE, "--communicator flat: it exchanges GPU memory"),
        ("--communicator flat", 1, TWO, "needs CuPy and --gpu"),
        ("--gpu", 3, TWO, "--gpu: 3 ranks on a host with 2 GPUs"),
        ("--gpu", 1, Gpus(2), "--communicator pure_nccl: this CuPy has no NCCL 2"),
        ("--gpu --communicator non_cuda_aware", 1, Gpus(2), "has no NCCL 2"),
        ("--fp16-gradients", 1, NONE, "--fp16-gradients: needs --communicator pure_nccl"),
        ("--gpu --communicator flat --double-buffering", 1, TWO, "--double-buffering: needs"),
    ],
)
def test_what_cannot_be_is_refused(flags: str, ranks: int, gpus: Gpus, words: str) -> None:
    reason = refusal(flags, ranks=ranks, gpus=gpus)
    assert reason is not None
    assert words in reason
    assert "\n" not in reason


def fake_cupy(
    monkeypatch: pytest.MonkeyPatch, *, available: bool, nccl_version: int | None
) -> None:
    cupy, cuda, nccl = (ModuleType(name) for name in ("cupy", "cupy.cuda", "cupy.cuda.nccl"))
    vars(cupy).update(cuda=cuda)
    runtime = SimpleNamespace(getDeviceCount=lambda: 4)
    vars(cuda).update(is_available=lambda: available, runtime=runtime)
    if nccl_version is not None:
        vars(nccl).update(get_build_version=lambda: nccl_version)
    for module in (cupy, cuda, nccl):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("available", "nccl_version", "expected"),
    [
        (True, 22304, Gpus(4, nccl=True)),
        (True, 1305, Gpus(4)),
        (True, None, Gpus(4)),
        (False, 22304, Gpus(missing="CuPy finds no CUDA device")),
    ],
)
def test_cupy_is_asked(
    monkeypatch: pytest.MonkeyPatch, available: bool, nccl_version: int | None, expected: Gpus
) -> None:
    fake_cupy(monkeypatch, available=available, nccl_version=nccl_version)
    assert host.find_gpus() == expected


def test_no_cupy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # its import fails
    assert host.find_gpus() == NONE


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "c"
    assert host.unwritable(folder, "--out") is None
    assert list(folder.iterdir()) == []


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reason = host.unwritable(tmp_path / "file" / "out", "--out")
    assert reason == f"--out {tmp_path / 'file' / 'out'}: cannot write there: Not a directory"
