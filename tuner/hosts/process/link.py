"""A supervisor's process and the two pipes to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tuner.hosts import supervisor
from tuner.hosts.supervisor.serving import SETTLE_S, TERM_WAIT_S

#: The supervisor answers sooner, unless it was stopped or killed itself, s.
ANSWER_S = TERM_WAIT_S + SETTLE_S + supervisor.GIVE_UP_S + 5.0


class Link:
    """A supervisor, from its start until it is closed."""

    def __init__(self, request: dict[str, Any], output: int | None, error: int | None) -> None:
        """Start a supervisor for the request, which it is not told yet; raises OSError."""
        self._received = b""
        self._line = json.dumps(request).encode() + b"\n"
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _program(), str(status), str(control)],
                env={**os.environ, supervisor.SUPERVISES: request["marker"]},
                stdin=None if request["foreground"] else subprocess.DEVNULL,
                stdout=output,
                stderr=error,
                pass_fds=(status, control),
                start_new_session=not request["foreground"],
            )
        except BaseException:
            self._close()
            raise
        finally:
            os.close(control)
            os.close(status)
        self.pid = self._process.pid
        born = supervisor.look_up(self.pid)
        #: When it was started, clock ticks since boot.
        self.since = born.start if born else 0
        #: False once it has ended: nothing more comes from it.
        self.open = True

    @property
    def ordered(self) -> bool:
        """Whether it was told to end all."""
        return self._control < 0

    def ask(self) -> dict[str, Any] | None:
        """Tell it the request; its answer, ``None`` if there is none within ``ANSWER_S``."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: there is no answer either
            while self._line:
                self._line = self._line[os.write(self._control, self._line) :]
        return self.receive(ANSWER_S)

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """The next answer; ``None`` at a timeout and if it has ended."""
        deadline = time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(self._status, select.POLLIN)
        while b"\n" not in self._received and self.open:
            left_s = max(0.0, deadline - time.monotonic())
            if not poller.poll(left_s * 1e3):
                return None
            chunk = os.read(self._status, 1 << 16)
            self._received += chunk
            self.open = bool(chunk)
        line, found, rest = self._received.partition(b"\n")
        if not found:
            return None
        self._received = rest
        answer: dict[str, Any] = json.loads(line)
        return answer

    def forward(self, number: int) -> None:
        """Have it send a signal to the command."""
        with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile
            os.write(self._control, bytes([number]))

    def order_the_end(self) -> None:
        """Have it end all; harmless if that was done."""
        if not self.ordered:
            os.close(self._control)
            self._control = -1

    def hurry(self) -> None:
        """Have it end all without giving time, if it is at it."""
        if self.ordered and self._process.returncode is None:  # so the id is still its own
            os.kill(self.pid, signal.SIGTERM)

    def wake(self) -> bool:
        """Let it go on if somebody has stopped it; whether that was so."""
        found = supervisor.look_up(self.pid)
        if found is None or found.state not in "Tt":
            return False
        os.kill(self.pid, signal.SIGCONT)
        return True

    def kill(self) -> None:
        """End the supervisor itself."""
        self._process.kill()

    def was_killed(self) -> bool:
        """Whether a signal has ended it; it is not reaped, so its id stays its own."""
        if self.open:
            return False
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return ended is not None and ended.si_code != os.CLD_EXITED

    def close(self) -> None:
        """Wait for its end, which is due: it is killed if that does not come."""
        self._close()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
                self._process.wait(ANSWER_S)

    def _close(self) -> None:
        for fd in (self._control, self._status):
            if fd >= 0:
                os.close(fd)
        self._control = self._status = -1
        self.open = False


def _program() -> str:
    """The folder that is the supervisor's program."""
    return str(Path(supervisor.__file__).parent)
