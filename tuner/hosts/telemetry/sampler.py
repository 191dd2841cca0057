"""Records a launch while it runs, from a thread of its own, for less than 1 % of a core."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType

from tuner.hosts.observe import Member
from tuner.hosts.telemetry.recording import Recording
from tuner.model import Telemetry

#: The thread ends within milliseconds; one that hangs in a driver is left behind after this, s.
JOIN_S = 5.0


@dataclass
class Sampler:
    """Records from its entering to its leaving; `telemetry` is then what it came to.

    Args:
        members: Gives the processes of the launch that were found last.
        ranks: How many the launch has.
        gpus: Whether there is a GPU to look at.
        environ: The launch's environment.
    """

    members: Callable[[], Sequence[Member]]
    ranks: int
    gpus: bool
    environ: Mapping[str, str]
    telemetry: Telemetry = field(default_factory=Telemetry, init=False)

    def __enter__(self) -> Sampler:
        self._began_s = time.monotonic()
        self._ended = threading.Event()
        self._recording: Recording | None = None
        self._problem = ""
        self._cpu_s = 0.0
        # Whatever happens to it, it must not keep tune from ending.
        self._thread = threading.Thread(target=self._record, name="telemetry", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the machine has no more threads
            self._problem = str(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        passed_s = time.monotonic() - self._began_s
        if self._thread.is_alive():
            self._problem = "it did not end in time"
        elif self._recording is not None:
            self.telemetry = self._recording.telemetry(self._cpu_s / max(passed_s, 1e-3))
        if self._problem:
            gap = f"The recording broke off: {self._problem}."
            self.telemetry = replace(self.telemetry, gaps=(*self.telemetry.gaps, gap))

    def _record(self) -> None:
        try:
            self._recording = Recording(self.ranks, gpus=self.gpus, environ=self.environ)
            try:
                self._recording.run(self.members, self._ended)
            finally:
                self._recording.close()
        except Exception as error:  # no launch is lost for what would explain it
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            self._cpu_s = time.thread_time()
