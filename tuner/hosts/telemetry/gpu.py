"""GPUs by NVML: utilisation and power, since a GPU that waits in a collective reads as busy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
            handles = [
                self._nvml.nvmlDeviceGetHandleByIndex(number)
                for number in range(self._nvml.nvmlDeviceGetCount())
            ]
            self._handles = self._visible(handles, environ.get("CUDA_VISIBLE_DEVICES"))
        except ImportError as error:
            self.gaps.append(f"GPUs are not recorded: {error}.")
        except self._error as error:
            self.gaps.append(f"GPUs are not recorded: NVML says {error}.")

    @property
    def _error(self) -> Any:
        return self._nvml.NVMLError

    def _visible(self, handles: list[Any], visible: str | None) -> list[Any]:
        """Those that the variable lists, by number or UUID; all where it names no whole GPU."""
        if visible is None:
            return handles
        uuids = [_text(self._nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        entries = [entry.strip() for entry in visible.split(",")]
        if any(entry.startswith("MIG-") for entry in entries):
            return handles
        numbers = {int(entry) for entry in entries if entry.isdecimal() and len(entry) < 9}
        names = tuple(entry for entry in entries if entry.startswith("GPU-"))
        return [
            handle
            for number, (handle, uuid) in enumerate(zip(handles, uuids, strict=True))
            if number in numbers or (names and uuid.startswith(names))
        ]

    def columns(self) -> dict[str, float | None]:
        """As columns of `HOST_COLUMNS`; ``None`` for what NVML does not tell."""
        shares = self._each("utilisation", self._share)
        power = self._each("power", lambda gpu: self._nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3)
        memory = self._each("memory", lambda gpu: self._nvml.nvmlDeviceGetMemoryInfo(gpu).used)
        return {
            "gpu_share": sum(shares) / len(shares) if shares else None,
            "gpu_power_w": sum(power) if power else None,
            "gpu_memory_bytes": float(sum(memory)) if memory else None,
        }

    def _share(self, gpu: Any) -> float:
        return float(self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu) / 100

    def _each(self, what: str, figure: Callable[[Any], float]) -> list[float]:
        """The figure of each GPU; none if one does not tell, and that is a gap."""
        try:
            return [figure(handle) for handle in self._handles]
        except self._error as error:
            gap = f"GPUs' {what} is not recorded: NVML says {error}."
            if gap not in self.gaps:
                self.gaps.append(gap)
            return []

    def close(self) -> None:
        """Let go of NVML."""
        if self._open:
            self._open = False
            self._nvml.nvmlShutdown()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
