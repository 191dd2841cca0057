"""A job that is only a script: a thread that speaks as rank 0 does, and a process that is none."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.hosts.process import OUTPUT, Exit
from tuner.live.server import VARIABLE
from tuner.model import Launch, Value

CAN: dict[str, Value | None] = {"omp_threads": 2, "iterator_workers": 1}


class Rank0:
    """The rank's end of the socket, for a script that is played on it."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.ended = threading.Event()  # from outside
        self._socket = socket.socket(socket.AF_UNIX)
        self._lines: list[bytes] = []
        self.iteration = 1
        self.switches: list[dict[str, Any]] = []

    def connect(self) -> None:
        self._socket.connect(self.launch.env[VARIABLE])
        self._socket.settimeout(10.0)

    def send(self, message: Mapping[str, Any] | bytes) -> None:
        text = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self._socket.sendall(text)

    def hello(self, can: Mapping[str, Value | None], ranks: int = 2, **more: Any) -> None:
        self.connect()
        message = {"type": "hello", "protocol": 2, "ranks": ranks, "pid": 1, "hook": "session"}
        self.send({**message, "can": can, "iteration": 1, **more})

    def switch(self, answers: bool = True, **errors: str) -> dict[str, Value | None]:
        """Wait for an order and obey it."""
        received = b""
        while not received.endswith(b"\n"):
            chunk = self._socket.recv(1)
            if not chunk:
                raise ConnectionError
            received += chunk
        order = json.loads(received)
        self.switches.append(order["values"])
        rank: dict[str, Any] = {"rank": 0, "pid": 1, "blas_threads": 2, "opencv_threads": None}
        rank |= {"pools": [["numpy.libs/libopenblas.so", 2]], "affinity": [0, 1], "values": {}}
        ranks = [rank, {**rank, "rank": 1, "errors": errors}]
        found = {"type": "switched", "number": order["number"], "iteration": self.iteration}
        if answers:
            self.send({**found, "took_s": 0.01, "ranks": ranks})
        return dict(order["values"])

    def steps(self, times_s: Sequence[float], marks: Sequence[int] = ()) -> None:
        message = {"type": "steps", "first": self.iteration, "s": list(times_s)}
        self.iteration += len(times_s)
        self.send({**message, "marks": list(marks)})

    def stay(self) -> None:
        """Run on until the job is ended."""
        self.ended.wait(10.0)

    def log(self, *elapsed_s: float, each: int = 1) -> None:
        """Write the program's own log, an entry for each so many iterations."""
        entries = [{"iteration": each * n, "elapsed_time": t} for n, t in enumerate(elapsed_s, 1)]
        (self.launch.out_dir / "log").write_text(json.dumps(entries))

    def full_log(self) -> None:
        """Write the log of a whole run of 2 s."""
        self.log(*(0.1 * n for n in range(1, 21)))

    def close(self) -> None:
        self._socket.close()


Script = Callable[[Rank0], int | None]


def plays(*acts: list[float] | bytes | int | Callable[[Rank0], object]) -> Script:
    """Says hello, then acts: a list are steps, bytes are sent, a number is the exit code."""

    def script(rank: Rank0) -> int:
        rank.hello(CAN)
        for act in acts:
            if isinstance(act, int):
                return act
            if isinstance(act, list):
                rank.steps(act)
            elif isinstance(act, bytes):
                rank.send(act)
            else:
                act(rank)
        return 0

    return script


class Job:
    """Stands for a started launch (`RunningTrial`); the script gives its exit code."""

    marker, pid = "none", 0

    def __init__(self, launch: Launch, script: Script) -> None:
        (launch.folder / OUTPUT).write_text("it begins\n")
        self.rank = Rank0(launch)
        self.stops = 0
        self._begun_s = time.monotonic()
        self._exit: Exit | None = None
        self._done = threading.Event()
        threading.Thread(target=self._play, args=(script,), daemon=True).start()

    def _play(self, script: Script) -> None:
        code: int | None = 0
        with contextlib.suppress(OSError):
            code = script(self.rank)
        self.rank.close()
        stopped = self.rank.ended.is_set()
        wall_s = time.monotonic() - self._begun_s
        self._exit = Exit(-15 if stopped else code or 0, wall_s, stopped, 0)
        self._done.set()

    def poll(self) -> Exit | None:
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> Exit | None:
        return self._exit if self._done.wait(timeout_s) else None

    def stop(self) -> Exit:
        self.stops += 1
        self.rank.ended.set()
        with contextlib.suppress(OSError):
            self.rank._socket.shutdown(socket.SHUT_RDWR)
        found = self.wait(10.0)
        assert found is not None
        return found

    def pids(self) -> tuple[int, ...]:
        return ()


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
