"""GPUs by NVML: utilisation and power, since a GPU that waits in a collective reads as busy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tuner.hosts.machine import visible_gpus


class Gpus:
    """The GPUs that a job started here can use.

    Args:
        environ: Where ``CUDA_VISIBLE_DEVICES`` is looked up.
        nvml: NVML's Python module; ``None`` loads it.

    A host without them, or without NVML, has none: `gaps` says why.
    """

    def __init__(self, environ: Mapping[str, str], nvml: Any = None) -> None:
        self.gaps: list[str] = []
        self._handles: list[Any] = []
        self._nvml: Any = nvml
        self._open = False
        try:
            self._nvml = import_module("pynvml") if nvml is None else nvml
            self._nvml.nvmlInit()
            self._open = True
            count = self._nvml.nvmlDeviceGetCount()
            handles = list(map(self._nvml.nvmlDeviceGetHandleByIndex, range(count)))
            uuids = [self._nvml.nvmlDeviceGetUUID(handle) for handle in handles]
            names = [uuid.decode() if isinstance(uuid, bytes) else str(uuid) for uuid in uuids]
            chosen = visible_gpus(names, environ.get("CUDA_VISIBLE_DEVICES"))
            # A part of a GPU has no figures of its own: those of all count.
            whole = [handles[index] for index in chosen if index is not None]
            self._handles = handles if None in chosen else whole
        except ImportError as error:
            self.gaps.append(f"GPUs are not recorded: {error}.")
        except self._nvml.NVMLError as error:
            self.gaps.append(f"GPUs are not recorded: NVML says {error}.")

    def columns(self) -> dict[str, float | None]:
        """As columns of `HOST_COLUMNS`; ``None`` for what NVML does not tell."""
        shares = self._per_gpu(
            "utilisation", lambda gpu: self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100
        )
        power = self._per_gpu("power", lambda gpu: self._nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3)
        return {
            "gpu_share": sum(shares) / len(shares) if shares else None,
            "gpu_power_w": sum(power) if power else None,
        }

    def _per_gpu(self, what: str, figure: Callable[[Any], float]) -> list[float]:
        """The figure of each GPU; none if one does not tell, and that is a gap."""
        try:
            return [figure(handle) for handle in self._handles]
        except self._nvml.NVMLError as error:
            gap = f"GPUs' {what} is not recorded: NVML says {error}."
            if gap not in self.gaps:
                self.gaps.append(gap)
            return []

    def close(self) -> None:
        """Let go of NVML."""
        if self._open:
            self._open = False
            self._nvml.nvmlShutdown()
