"""GPUs by NVML: with power and memory, as a GPU that waits in a collective reads as busy."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from tuner.hosts.machine import visible_gpus


class Gpus:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` in ``environ`` leaves to a job started here.

    ``nvml`` is NVML's Python module; ``None`` loads it.
    """

    def __init__(self, environ: Mapping[str, str], nvml: Any = None) -> None:
        self._handles: list[Any] = []
        self._nvml = nvml = import_module("pynvml") if nvml is None else nvml
        with suppress(nvml.NVMLError):
            nvml.nvmlInit()
            handles = list(map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount())))
            uuids = [nvml.nvmlDeviceGetUUID(handle) for handle in handles]
            names = [uuid.decode() if isinstance(uuid, bytes) else str(uuid) for uuid in uuids]
            visible = visible_gpus(names, environ.get("CUDA_VISIBLE_DEVICES"))
            # A part of a GPU has no figures of its own: then those of all GPUs count.
            whole_gpus = [handles[index] for index in visible if index is not None]
            self._handles = handles if None in visible else whole_gpus

    def columns(self) -> dict[str, float | None]:
        """Return the columns of GPUs in `HOST_COLUMNS`; ``None`` for what NVML does not tell."""
        nvml, handles = self._nvml, self._handles
        names = ("gpu_share", "gpu_power_w", "gpu_memory_share")
        columns: dict[str, float | None] = dict.fromkeys(names)
        if handles:
            with suppress(nvml.NVMLError):
                shares = [nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles]
                columns["gpu_share"] = sum(shares) / 100 / len(shares)
            with suppress(nvml.NVMLError):
                columns["gpu_power_w"] = sum(map(nvml.nvmlDeviceGetPowerUsage, handles)) / 1e3
            with suppress(nvml.NVMLError):
                memories = map(nvml.nvmlDeviceGetMemoryInfo, handles)
                columns["gpu_memory_share"] = max(info.used / info.total for info in memories)
        return columns

    def close(self) -> None:
        """Shut NVML down."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()
