"""A command below its supervisor, from its start to the proof that nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner.hosts import procfs
from tuner.hosts.process import left_over
from tuner.hosts.supervisor.cleanup import GIVE_UP_S, SUPERVISES, Remains, descendants
from tuner.hosts.supervisor.serving import PAUSE, RESUME, SETTLE_S, TERM_WAIT_S
from tuner.model.errors import TunerError

#: The supervisor answers within this time, unless it was stopped or killed itself, s.
ANSWER_S = TERM_WAIT_S + SETTLE_S + GIVE_UP_S + 5.0

#: The program of a supervisor. Our folder comes after the standard library on its path.
_SUPERVISOR = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from tuner.hosts.supervisor.serving import main; main(sys.argv[2:])"
)

#: The commands that have not ended.
_live: set[SupervisedCommand] = set()


def hurry() -> None:
    """End all commands, now or later, without time to end by themselves; for a signal handler."""
    for trial in tuple(_live):
        trial.hurry()


@dataclass(frozen=True)
class Exit:
    """How a command ended."""

    code: int | None  # exit status, negative for a signal; None: the supervisor was killed
    wall_s: float
    stopped: bool  # tune ended it
    killed: int  # processes that SIGKILL had to end
    oom_kills: int = 0  # processes around us that the kernel ended for want of memory
    host_oom_kills: int = 0  # on the whole host, if none around us are counted
    lost: bool = False  # somebody else's signal to its supervisor has ended it
    lost_host: str = ""  # which host it has lost, and why; empty: none
    #: The names of processes that outlived the command and were killed, and whether they computed.
    left_running: tuple[tuple[str, bool], ...] = ()


class RunningCommand(Protocol):
    """A launch that runs: a :class:`SupervisedCommand`, or its like over several hosts.

    An ``Exit`` means that nothing of the command is left, on whichever host. Each method raises
    ``TunerError`` if a process of it cannot be ended (it hangs in the kernel).
    """

    pid: int

    def poll(self) -> Exit | None:
        """Return the end, or ``None`` while something of the command is alive."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> Exit | None:
        """Return the end, if it comes in time."""

    def stop(self) -> Exit:
        """End the command and return once nothing of it is left; harmless after the end."""

    def pids(self) -> tuple[int, ...]:
        """Return its live processes on this host, mpirun's own helpers included."""

    def pause(self) -> None:
        """Stop all its processes until :meth:`resume`; return once they stand still.

        Harmless if it is paused. :meth:`stop` ends a command that is paused like any other.
        """

    def resume(self) -> None:
        """Let its processes go on; harmless if it is not paused."""

    def running_s(self) -> float:
        """Return how long it has run so far, without its pauses."""

    def pauses(self) -> list[tuple[float, float]]:
        """Return its pauses so far, each from and to a moment of ``time.time``."""


class SupervisedCommand(RunningCommand):
    """A command below its supervisor."""

    def __init__(
        self,
        request: dict[str, Any],
        *,
        output: int | None,
        error: int | None,
        note: Path | None = None,
    ) -> None:
        """Start a supervisor and have it start the command; ``OSError`` if either is impossible.

        :func:`tuner.hosts.process.request_of` makes the request. What the command prints goes to
        two descriptors; ``None``: those of this process. The note is removed once nothing is left.
        """
        self.marker: str = request["marker"]
        self._note = note
        self._folder: str = request["folder"]
        self._exit: Exit | None = None
        self._problem: TunerError | None = None
        #: (id, start) of every process that was ours.
        self._process_keys: set[tuple[int, int]] = set()
        self._must_hurry = False
        self._started_s = time.monotonic()
        self._pauses: list[tuple[float, float]] = []  # from, to; infinite: it goes on
        self._received = b""
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        # The code of an agent is an archive that the agent holds open.
        our_folder = str(Path(__file__).parents[3]).replace("/proc/self/", f"/proc/{os.getpid()}/")
        options = ["-I", "-S", "-c", _SUPERVISOR, our_folder, str(status), str(control)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *options],
                env={**os.environ, SUPERVISES: self.marker},
                stdin=None if request["foreground"] else subprocess.DEVNULL,
                stdout=output,
                stderr=error,
                pass_fds=(status, control),
                start_new_session=not request["foreground"],
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            os.close(control)
            os.close(status)
        supervisor = procfs.stat(self._process.pid)
        self._since = supervisor.started if supervisor else 0
        try:
            self.pid = self._ask(request)
            _live.add(self)
        except BaseException:
            self._close()  # the supervisor then ends whatever it has started
            raise

    def _ask(self, request: dict[str, Any]) -> int:
        """Have the command started; return its process id, 0 if the supervisor was killed first."""
        line = json.dumps(request).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # the supervisor has ended: no answer will come
            while line:
                line = line[os.write(self._control, line) :]
        answer = self._receive(ANSWER_S)
        if answer is None and self._status < 0:
            end = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            if end is not None and end.si_code != os.CLD_EXITED:
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

    def _receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the supervisor's next answer; ``None`` at a timeout and if it has ended."""
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._received:
            if self._status < 0:
                return None
            poller = select.poll()
            poller.register(self._status, select.POLLIN)
            if not poller.poll(max(0.0, deadline_s - time.monotonic()) * 1e3):
                return None
            chunk = os.read(self._status, 1 << 16)
            self._received += chunk
            if not chunk:
                os.close(self._status)
                self._status = -1
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def wait(self, timeout_s: float) -> Exit | None:
        if self._problem is not None:
            raise self._problem
        if self._exit is None:
            answer = self._receive(timeout_s)
            while answer is not None and "at_s" in answer:  # of a pause that was broken off
                answer = self._receive(timeout_s)
            if answer is not None:
                self._conclude(answer)
            elif self._status < 0:
                self._conclude(self._end_without_supervisor())
        return self._exit

    def stop(self) -> Exit:
        if self._control >= 0:  # the end of this pipe orders the supervisor to end all
            os.close(self._control)
            self._control = -1
        if self._must_hurry:
            self.hurry()
        try:
            for _ in range(2):
                if self._process.returncode is None:  # somebody may have stopped it
                    os.kill(self._process.pid, signal.SIGCONT)
                if (exit_ := self.wait(ANSWER_S)) is not None:
                    return exit_
                self._process.kill()  # the supervisor itself hangs
        except KeyboardInterrupt:
            self.hurry()
            raise
        raise TunerError(f"the supervisor of a trial (process {self._process.pid}) does not end")

    def hurry(self) -> None:
        """Let :meth:`stop`, now or later, end the trial without giving it time."""
        self._must_hurry = True
        if self._control < 0 and self._process.returncode is None:  # so the id is still its own
            os.kill(self._process.pid, signal.SIGTERM)

    def pause(self) -> None:
        if not self._is_paused and (at_s := self._switch(PAUSE)) is not None:
            self._pauses.append((at_s, math.inf))

    def resume(self) -> None:
        if self._is_paused and (at_s := self._switch(RESUME)) is not None:
            self._pauses[-1] = self._pauses[-1][0], at_s

    @property
    def _is_paused(self) -> bool:
        return bool(self._pauses) and self._pauses[-1][1] == math.inf

    def pauses(self) -> list[tuple[float, float]]:
        now_s = time.monotonic()
        ago_s = time.time() - now_s
        return [(begin + ago_s, min(end, now_s) + ago_s) for begin, end in self._pauses]

    def running_s(self) -> float:
        now_s = time.monotonic()
        return now_s - self._started_s - sum(min(end, now_s) - begin for begin, end in self._pauses)

    def _switch(self, number: int) -> float | None:
        """Have the supervisor pause or resume the trial; return when, ``None`` after its end."""
        if self._exit is not None:
            return None
        self.forward(number)
        answer = self._receive(ANSWER_S)
        if answer is not None and "at_s" in answer:
            return float(answer["at_s"])
        if answer is None and self._status >= 0:
            raise TunerError(f"the supervisor of a trial (process {self._process.pid}) hangs")
        self._conclude(self._end_without_supervisor() if answer is None else answer)
        return None

    def pids(self) -> tuple[int, ...]:
        if self._exit is not None:
            return ()
        processes = descendants(procfs.processes(), [self._process.pid])
        self._process_keys.update(process.key for process in processes)
        return tuple(sorted(process.pid for process in processes))

    def forward(self, number: int) -> None:
        """Send a signal to the command."""
        with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile
            os.write(self._control, bytes([number]))

    def _conclude(self, answer: dict[str, Any]) -> None:
        """Set the exit by the supervisor's last answer, and close the connection to it."""
        if left := answer.pop("left"):
            self._problem = left_over.unkillable(left)
        else:
            left_running = tuple((str(n), bool(c)) for n, c in answer.pop("left_running", ()))
            is_lost = answer["stopped"] and self._control >= 0  # not by :meth:`stop`
            self._exit = Exit(**answer, lost=is_lost, left_running=left_running)
        _live.discard(self)
        self._close()
        if self._problem is not None:
            raise self._problem
        if self._note is not None:
            left_over.remove(self._note)

    def _end_without_supervisor(self) -> dict[str, Any]:
        """Clean up after a supervisor that was killed: its command then gets SIGTERM."""
        # The supervisor is not reaped, so no other process has its id.
        remains = Remains(self.marker, self._process.pid, self._since, self._process_keys)
        killed, left = remains.end(self._folder, TERM_WAIT_S)
        wall_s = time.monotonic() - self._started_s
        return {"code": None, "wall_s": wall_s, "stopped": True, "killed": killed, "left": left}

    def _close(self) -> None:
        """Wait for the end of the supervisor, which is due, and kill it if that does not come."""
        self._close_pipes()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
                self._process.wait(ANSWER_S)

    def _close_pipes(self) -> None:
        for fd in (self._control, self._status):
            if fd >= 0:
                os.close(fd)
        self._control = self._status = -1
