"""Ranks with the probe in them, and the tool's end of their connections as a test needs it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.light_trainer import captured
from tuner.live.job_server import Hello, JobServer, Steps, Switched

PROBE = Path(__file__).resolve().parent.parent / "wrappers" / "probe"
PATIENCE_S = 60.0


def probe_module(name: str) -> ModuleType:
    """Return a module of the probe, which lies in no package."""
    sys.path.insert(0, str(PROBE))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(PROBE))


def run_rank(
    folder: Path, code: str, *options: str, python: str = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of this code in the folder, as the only rank; "" unsets a variable."""
    (folder / "train.py").write_text(code)
    env = {name: value for name, value in os.environ.items() if "RANK" not in name}
    env |= {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PYTHONPATH": str(PROBE)}
    env = {name: value for name, value in (env | environ).items() if value}
    return captured([python, *options, folder / "train.py"], folder, env, timeout_s=60)


class Supervisor:
    """The tool of a job: a server that keeps what the ranks tell."""

    def __init__(self, folder: Path, ranks: int = 1) -> None:
        self.path = folder / "live"
        self.server = JobServer(ranks, self.path.write_text)
        self.server.listen()
        assert not self.server.problem
        self.steps: list[Steps] = []
        self._switched: Switched | None = None

    def hello(self) -> Hello:
        """Return that of the job."""
        self._wait(lambda: self.server.hello is not None)
        assert self.server.hello is not None
        return self.server.hello

    def switch(self, **values: Any) -> Switched:
        """Ask for a change, and wait for what came of it."""
        self._switched = None
        self.server.switch(values)
        self._wait(lambda: self._switched is not None)
        assert self._switched is not None
        return self._switched

    def finish(self, **values: Any) -> None:
        """Ask for a change that ends the program, and wait until it has."""
        self.server.switch(values)
        self.wait_for_end()

    def wait_for(self, iteration: int) -> None:
        """Wait until this iteration was told of."""
        self._wait(lambda: max(self.counted(), default=0) >= iteration)

    def wait_for_end(self) -> None:
        """Wait until the job has closed its connections."""
        self._wait(lambda: self.server.lost_s > 0)

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline_s, self.server.problem
            for message in self.server.receive(0.05):
                if isinstance(message, Steps):
                    self.steps.append(message)
                else:
                    self._switched = message

    def counted(self) -> list[int]:
        """Return the numbers of all iterations that were told of."""
        return [number for steps in self.steps for number, _, _ in steps.timings()]

    def marks(self) -> list[int]:
        """Return those that do not count."""
        return [number for steps in self.steps for number, _, marked in steps.timings() if marked]

    def close(self) -> None:
        """Let the other side see the end; may be called again."""
        self.server.close()
