"""A command below its supervisor, from its start to the proof that nothing of it is left."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner.hosts import supervisor
from tuner.hosts.process import left_over, link
from tuner.hosts.process.link import Link
from tuner.hosts.supervisor.serving import TERM_WAIT_S
from tuner.model.errors import TunerError

#: So often it is looked whether somebody has stopped the supervisor that shall end a trial, s …
LOOK_S = 0.5
#: … and woken so many times before it is killed.
WAKINGS = 4

#: The commands that have not ended.
_live: set[RunningTrial] = set()


def hurry() -> None:
    """From now on what is ended gets no time to end by itself; for a signal handler."""
    for trial in tuple(_live):
        trial.hurry()


@dataclass(frozen=True)
class Exit:
    """How a command ended.

    ``code`` is its exit status, negative for a signal, ``None`` if it could not be had.
    ``stopped`` says that it was ended by us; ``killed`` counts what SIGKILL had to end.
    ``oom_kills`` counts the processes that the kernel ended for want of memory (``None``: nobody
    counted them), with ``oom_kills_own`` only those of the command. ``lost`` says that somebody
    else's signal to its supervisor has ended it.
    """

    code: int | None
    wall_s: float
    stopped: bool
    killed: int
    oom_kills: int | None = None
    oom_kills_own: bool = False
    lost: bool = False


class Running(Protocol):
    """A started trial."""

    @property
    def marker(self) -> str:
        """The value of ``TUNE_TRIAL`` in the environment of each of its processes."""

    @property
    def pid(self) -> int:
        """The process id of the command (mpirun); 0 where its supervisor was killed at once."""

    def poll(self) -> Exit | None:
        """The end, or ``None`` while something of the trial is alive."""

    def wait(self, timeout_s: float) -> Exit | None:
        """Like :meth:`poll`, after at most ``timeout_s``."""

    def stop(self) -> Exit:
        """End the trial and return once nothing of it is left."""

    def pids(self) -> tuple[int, ...]:
        """The live processes of the trial."""


class RunningTrial:
    """A command below its supervisor. An ``Exit`` from it means that nothing is left alive."""

    def __init__(
        self,
        request: dict[str, Any],
        *,
        output: int | None,
        error: int | None,
        note: Path | None = None,
    ) -> None:
        """Start the command; raises what :func:`start` does.

        ``note`` is removed once nothing of the trial is left.
        """
        self.marker: str = request["marker"]
        self._note = note
        self._folder: str = request["folder"]
        self._group = supervisor.Cgroup(request["cgroup"])
        self._exit: Exit | None = None
        self._problem: TunerError | None = None
        self._seen: set[tuple[int, int]] = set()  # (id, start) of every process that was ours
        self._hurried = False
        self._started_s = time.monotonic()
        self._link = Link(request, output, error)
        try:
            self.pid = self._ask()
            _live.add(self)
        except BaseException:
            self._link.close()  # the supervisor then ends whatever it has started
            raise

    def _ask(self) -> int:
        """Have the command started; the id of its process.

        0 if the supervisor was killed before it could: :meth:`wait` then tells of the end.
        """
        answer = self._link.ask()
        if answer is None and self._link.was_killed():
            return 0
        if answer is None:
            raise TunerError(
                "the supervisor of a trial ended before it could start the command",
                "see output.log in the trial's folder",
            )
        if "errno" in answer:
            code = int(answer["errno"])
            raise OSError(code, os.strerror(code), os.fsdecode(answer["name"].encode("latin-1")))
        return int(answer["pid"])

    def poll(self) -> Exit | None:
        """The end, or ``None`` while something of the trial is alive."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> Exit | None:
        """Wait at most ``timeout_s`` for the end.

        Raises:
            TunerError: A process of the trial cannot be ended (it hangs in the kernel).
        """
        if self._problem is not None:
            raise self._problem
        if self._exit is None:
            answer = self._link.receive(timeout_s)
            if answer is not None:
                self._conclude(answer)
            elif not self._link.open:
                self._conclude(self._end_without_supervisor())
        return self._exit

    def stop(self) -> Exit:
        """End the trial and return once nothing of it is left; harmless after the end.

        Raises:
            TunerError: A process of the trial cannot be ended (it hangs in the kernel).
        """
        self._link.order_the_end()
        if self._hurried:
            self.hurry()
        try:
            for _ in range(2):
                ended = self._wait_awake()
                if ended is not None:
                    return ended
                self._link.kill()  # the supervisor itself hangs
        except KeyboardInterrupt:
            self.hurry()
            raise
        raise TunerError(f"the supervisor of a trial (process {self._link.pid}) does not end")

    def hurry(self) -> None:
        """Let :meth:`stop`, now or later, end the trial without giving it time."""
        self._hurried = True
        self._link.hurry()

    def _wait_awake(self) -> Exit | None:
        """Wait for the end, and wake a supervisor that was stopped: it has its work to do."""
        deadline = time.monotonic() + link.ANSWER_S
        wakings = 0
        while (left_s := deadline - time.monotonic()) > 0 and wakings < WAKINGS:
            ended = self.wait(min(LOOK_S, left_s))
            if ended is not None:
                return ended
            wakings += self._link.wake()
        return None

    def pids(self) -> tuple[int, ...]:
        """The live processes of the trial, mpirun's own helpers included (some ms to find)."""
        if self._exit is not None:
            return ()
        found = supervisor.descendants(supervisor.processes(), [self._link.pid])
        self._seen.update((process.pid, process.start) for process in found)
        return tuple(sorted(process.pid for process in found))

    def forward(self, number: int) -> None:
        """Send a signal to the command."""
        self._link.forward(number)

    def _conclude(self, answer: dict[str, Any]) -> None:
        """Take the last answer for the end."""
        if answer["left"]:
            self._problem = left_over.unkillable(answer["left"])
        else:
            self._exit = Exit(
                answer["code"],
                answer["wall_s"],
                answer["stopped"],
                answer["killed"],
                answer.get("oom_kills"),
                answer.get("oom_kills_own", False),
                # ended, and nobody here wanted its end
                lost=answer["stopped"] and not self._link.ordered,
            )
        _live.discard(self)
        self._link.close()
        if self._problem is not None:
            raise self._problem
        if self._note is not None:
            left_over.remove(self._note)

    def _end_without_supervisor(self) -> dict[str, Any]:
        """Clean up after a supervisor that was killed: its command then gets SIGTERM."""
        killed, left = supervisor.end_orphans(
            *(self.marker, self._link.pid, self._link.since),  # not reaped: the id is its own
            seen=self._seen,
            group=self._group,
            folder=self._folder,
            grace_s=TERM_WAIT_S,
        )
        return {
            "code": None,
            "wall_s": time.monotonic() - self._started_s,
            "stopped": True,
            "killed": killed,
            "left": left,
        }
