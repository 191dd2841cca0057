"""A job that is only a script: a thread that speaks as its ranks do, and a process that is none."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.live_bench import probe_module
from tuner.hosts.probe import live_file
from tuner.hosts.process import OUTPUT, Exit
from tuner.model import Launch, Value

to_tool = probe_module("rank_live_line").to_tool

RANKS = 2
CAN: dict[str, Value | None] = {"omp_threads": 2, "iterator_workers": 1}


class Ranks:
    """The ranks' ends of the connections, for a script that is played on them."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.ended = threading.Event()  # from outside
        self.lines: list[Any] = []
        self.iteration = 1
        self.switches: list[dict[str, Any]] = []
        self._values = dict(CAN)

    def send(self, message: bytes) -> None:
        self.lines[0].socket.sendall(message)

    def hello(self) -> None:
        place = json.loads(live_file(self.launch.folder).read_text())
        message = {"type": "hello", "ranks": RANKS, "hook": "session", "can": CAN}
        self.lines = [to_tool(place, {**message, "rank": rank}) for rank in range(RANKS)]

    def switch(
        self, *, answers: bool = True, errors: Mapping[str, str] | None = None, **overridden: Value
    ) -> None:
        """Wait for an order and obey it; rank 1 has the errors, and other values."""
        for line in self.lines:
            assert line.receive() == {"type": "stop"}
            line.send({"type": "stopped", "iteration": self.iteration - 1})
        (order,) = [line.receive() for line in self.lines][:1]
        assert order["iteration"] == self.iteration
        self.switches.append(order["values"])
        for name, value in order["values"].items():
            self._values[name] = CAN[name] if value is None else value
        for rank, line in enumerate(self.lines if answers else ()):
            values = {**self._values, **(overridden if rank else {})}
            state = {"type": "state", "rank": rank, "values": values, "errors": {}}
            line.send({**state, "errors": errors or {}} if rank else state)

    def steps(self, times_s: Sequence[float], marks: Sequence[int] = ()) -> None:
        message = {"type": "steps", "first": self.iteration, "s": list(times_s), "marks": []}
        self.iteration += len(times_s)
        self.lines[0].send({**message, "marks": list(marks)})

    def stay(self) -> None:
        """Run on until the job is ended."""
        self.ended.wait(10.0)

    def log(self, *elapsed_s: float) -> None:
        entries = [{"iteration": n, "elapsed_time": t} for n, t in enumerate(elapsed_s, 1)]
        (self.launch.out_dir / "log").write_text(json.dumps(entries))

    def full_log(self) -> None:
        """Write the log of a whole run of 2 s."""
        self.log(*(0.1 * n for n in range(1, 21)))

    def close(self) -> None:
        for line in self.lines:
            line.close()


Script = Callable[[Ranks], int | None]


def plays(*acts: list[float] | bytes | int | Callable[[Ranks], object]) -> Script:
    """Say hello, then act: a list are steps, bytes are sent, a number is the exit code."""

    def script(ranks: Ranks) -> int:
        ranks.hello()
        for act in acts:
            if isinstance(act, int):
                return act
            if isinstance(act, list):
                ranks.steps(act)
            elif isinstance(act, bytes):
                ranks.send(act)
            else:
                act(ranks)
        return 0

    return script


class Job:
    """Stands for a started launch (`SupervisedCommand`); the script gives its exit code."""

    marker, pid = "none", 0

    def __init__(self, launch: Launch, script: Script) -> None:
        (launch.folder / OUTPUT).write_text("it begins\n")
        self.ranks = Ranks(launch)
        self._begun_s = time.monotonic()
        self._exit = ThreadPoolExecutor(1).submit(self._play, script)

    def _play(self, script: Script) -> Exit:
        code: int | None = 0
        with contextlib.suppress(OSError):
            code = script(self.ranks)
        self.ranks.close()
        stopped = self.ranks.ended.is_set()
        return Exit(-15 if stopped else code or 0, self.running_s(), stopped, 0)

    def poll(self) -> Exit | None:
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> Exit | None:
        with contextlib.suppress(TimeoutError):
            return self._exit.result(timeout_s)
        return None

    def stop(self) -> Exit:
        self.ranks.ended.set()
        for line in self.ranks.lines:
            line.end()
        return self._exit.result(10.0)

    def pids(self) -> tuple[int, ...]:
        return ()

    def running_s(self) -> float:
        return time.monotonic() - self._begun_s

    def pauses(self) -> list[tuple[float, float]]:
        return []


class Starter:
    """Starts one script after another, each launch the next."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.jobs: list[Job] = []

    def __call__(self, launch: Launch) -> Any:
        self.jobs.append(Job(launch, self._scripts.pop(0)))
        return self.jobs[-1]


def launch(folder: Path, number: int, limit_s: float | None = None) -> Launch:
    own = folder / f"trial-{number}"
    return Launch(("mpirun", "x"), {}, folder, own / "out", own, limit_s)
