"""What the ranks' host has, and which options it cannot serve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_NEEDS_NCCL = ("pure_nccl", "non_cuda_aware")


@dataclass(frozen=True)
class Gpus:
    """What CuPy or PyTorch finds; ``missing`` says why there is no GPU, where there is none."""

    count: int = 0
    nccl: bool = False
    missing: str = ""


class ExchangeOptions(Protocol):
    """The options that depend on the host."""

    @property
    def gpu(self) -> bool:
        """Train on GPUs."""
        ...

    @property
    def communicator(self) -> str:
        """ChainerMN's name of it."""
        ...

    @property
    def fp16_gradients(self) -> bool:
        """Exchange gradients in half precision."""
        ...

    @property
    def double_buffering(self) -> bool:
        """Exchange gradients beside the computation."""
        ...


def find_gpus() -> Gpus:
    """Ask CuPy, not Chainer.

    With the CUDA libraries installed and no GPU Chainer still says that CUDA is available.
    """
    try:
        import cupy
    except ImportError:
        return Gpus(missing="CuPy is not installed")
    if not cupy.cuda.is_available():
        return Gpus(missing="CuPy finds no CUDA device")
    return Gpus(int(cupy.cuda.runtime.getDeviceCount()), _has_nccl())


def refusal(options: ExchangeOptions, ranks_here: int, gpus: Gpus) -> str | None:
    """Why a host with ``gpus`` and ``ranks_here`` ranks cannot run this; ``None``: it can."""
    name = options.communicator
    if options.gpu and (reason := gpu_refusal(ranks_here, gpus)):
        return reason
    if not options.gpu and name != "naive":
        return (
            f"--communicator {name}: it exchanges GPU memory and needs CuPy and --gpu; "
            "on the CPU only naive works"
        )
    if name in _NEEDS_NCCL and not gpus.nccl:
        return f"--communicator {name}: this CuPy has no NCCL 2; use --communicator flat"
    for flag, is_set in (
        ("--fp16-gradients", options.fp16_gradients),
        ("--double-buffering", options.double_buffering),
    ):
        if is_set and name != "pure_nccl":
            return f"{flag}: needs --communicator pure_nccl and --gpu, not {name}"
    return None


def gpu_refusal(ranks_here: int, gpus: Gpus) -> str | None:
    """Why ``ranks_here`` ranks cannot train on these GPUs, one each; ``None``: they can."""
    if gpus.count == 0:
        return f"--gpu: no usable GPU ({gpus.missing}); leave it out to train on the CPU"
    if ranks_here > gpus.count:
        return (
            f"--gpu: {ranks_here} ranks on a host with {gpus.count} GPUs, and each rank needs "
            f"one of its own; start at most {gpus.count} there"
        )
    return None


def unwritable(folder: Path, flag: str) -> str | None:
    """Make a folder and try to write into it: why that fails, or ``None``."""
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        return f"{flag} {folder}: cannot write there: {error.strerror}"
    return None


def _has_nccl() -> bool:
    try:
        from cupy.cuda.nccl import get_build_version
    except ImportError:
        return False
    return int(get_build_version()) >= 2000
