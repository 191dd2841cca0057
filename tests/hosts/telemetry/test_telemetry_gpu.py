"""GPUs, by something in place of NVML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuner.hosts.telemetry.gpu import Gpus


class NVMLError(Exception):
    pass


class Nvml:
    """Three GPUs; what is in `refused` raises."""

    NVMLError = NVMLError

    def __init__(self, *refused: str) -> None:
        self.open = 0
        self.nvmlDeviceGetCount = lambda: 3
        self.nvmlDeviceGetHandleByIndex = lambda number: number
        self.nvmlDeviceGetUUID = lambda gpu: f"GPU-{gpu}{gpu}".encode()
        self.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=(100, 50, 0)[gpu])
        self.nvmlDeviceGetPowerUsage = lambda gpu: (300_000, 100_000, 50_000)[gpu]  # mW
        for name in refused:
            setattr(self, name, self.refuse)

    def refuse(self, *_: object) -> Any:
        raise NVMLError("Not Supported")

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1


@pytest.mark.parametrize(
    ("visible", "share", "power_w"),
    [
        (None, 0.5, 450.0),
        ("0", 1.0, 300.0),
        ("2, 1", 0.25, 150.0),
        ("GPU-1", 0.5, 100.0),
        ("MIG-1", 0.5, 450.0),
        ("", None, None),
        ("9", None, None),
        ("²", None, None),
    ],
)
def test_those_that_a_job_may_use(
    visible: str | None, share: float | None, power_w: float | None
) -> None:
    gpus = Gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, Nvml())
    found = {"gpu_share": share, "gpu_power_w": power_w}
    assert (gpus.columns(), gpus.gaps) == (found, [])


def test_what_nvml_does_not_tell_is_a_gap_once() -> None:
    nvml = Nvml("nvmlDeviceGetPowerUsage")
    gpus = Gpus({}, nvml)
    for _ in range(3):
        columns = gpus.columns()
    assert (columns["gpu_share"], columns["gpu_power_w"]) == (0.5, None)
    assert gpus.gaps == ["GPUs' power is not recorded: NVML says Not Supported."]
    assert nvml.open == 1
    gpus.close()
    gpus.close()
    assert nvml.open == 0


def test_without_nvml_there_are_none() -> None:
    nvml = Nvml("nvmlInit")
    gpus = Gpus({}, nvml)
    assert set(gpus.columns().values()) == {None}
    assert gpus.gaps == ["GPUs are not recorded: NVML says Not Supported."]
    gpus.close()
    assert nvml.open == 0
