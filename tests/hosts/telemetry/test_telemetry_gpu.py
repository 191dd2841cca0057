"""GPUs, by something in place of NVML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tuner.hosts.telemetry.gpu import Gpus


class NVMLError(Exception):
    pass


class Nvml:
    """Three GPUs; what is ``refused`` raises."""

    NVMLError = NVMLError

    def __init__(self, refused: str) -> None:
        self.open = 0
        self.nvmlDeviceGetCount = lambda: 3
        self.nvmlDeviceGetHandleByIndex = lambda number: number
        self.nvmlDeviceGetUUID = lambda gpu: f"GPU-{gpu}{gpu}".encode()
        self.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=(100, 50, 0)[gpu])
        self.nvmlDeviceGetPowerUsage = lambda gpu: (300_000, 100_000, 50_000)[gpu]  # mW
        self.nvmlDeviceGetMemoryInfo = lambda gpu: SimpleNamespace(used=gpu + 1, total=4)
        if refused:
            setattr(self, refused, self.refuse)

    def refuse(self, *_: object) -> Any:
        raise NVMLError("Not Supported")

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        if not self.open:
            self.refuse()
        self.open -= 1


@pytest.mark.parametrize(
    ("visible", "refused", "columns"),
    [
        (None, "", (0.5, 450.0, 0.75)),
        ("2, 1", "", (0.25, 150.0, 0.75)),
        ("MIG-1", "", (0.5, 450.0, 0.75)),
        ("9", "", (None, None, None)),
        (None, "nvmlDeviceGetPowerUsage", (0.5, None, 0.75)),
        (None, "nvmlInit", (None, None, None)),
    ],
)
def test_gpus_that_a_job_may_use_as_far_as_nvml_tells(
    visible: str | None, refused: str, columns: tuple[float | None, ...]
) -> None:
    nvml = Nvml(refused)
    gpus = Gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, nvml)
    assert tuple(gpus.columns().values()) == columns
    gpus.close()
    assert nvml.open == 0
