"""The only module that starts and ends processes.

Every command runs below a supervisor (:mod:`tuner.supervisor`), which ends it with all that
it started, also when tune itself is killed, and proves that nothing is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner import supervisor
from tuner.errors import TunerError
from tuner.model import Launch

MARKER = supervisor.MARKER

#: The name of the file in a trial's folder that takes the output of the command.
OUTPUT = "output.log"

#: The supervisor answers sooner, unless it was stopped or killed itself, s.
_ANSWER_S = supervisor.TERM_WAIT_S + supervisor.SETTLE_S + supervisor.GIVE_UP_S + 5.0

#: What `tune exec` hands on to its command.
_FORWARDED = frozenset(
    {
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
_SI_KERNEL = 0x80  # asm-generic/siginfo.h: sent by the kernel, as the terminal's Ctrl-C is


@dataclass(frozen=True)
class Exit:
    """How a command ended.

    ``code`` is its exit status, negative for a signal, ``None`` where it could not be had.
    ``stopped`` says that it was ended by us; ``killed`` counts what SIGKILL had to end.
    """

    code: int | None
    wall_s: float
    stopped: bool
    killed: int


class Running(Protocol):
    """A started trial."""

    @property
    def marker(self) -> str:
        """The value of ``TUNE_TRIAL`` in the environment of each of its processes."""

    @property
    def pid(self) -> int:
        """The process id of the command (mpirun)."""

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

    def __init__(self, request: dict[str, Any], *, output: int | None, error: int | None) -> None:
        """Start the command; raises what :func:`start` does."""
        self.marker: str = request["marker"]
        self._exit: Exit | None = None
        self._problem: TunerError | None = None
        self._received = b""
        self._status_open = True
        self._started_s = time.monotonic()
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(status), str(control)],
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
        try:
            self.pid = self._ask(request)
        except BaseException:
            self._close()  # the supervisor then ends whatever it has started
            self._process.wait()
            raise

    def _ask(self, request: dict[str, Any]) -> int:
        """Send the request; the id of the command's process, as the supervisor answers."""
        born = supervisor.look_up(self._process.pid)
        self._since = born.start if born else 0
        text = json.dumps(request).encode() + b"\n"
        while text:
            text = text[os.write(self._control, text) :]
        answer = self._receive(_ANSWER_S)
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
            answer = self._receive(timeout_s)
            if answer is not None:
                self._conclude(answer)
            elif not self._status_open:
                self._conclude(self._end_without_supervisor())
        return self._exit

    def stop(self) -> Exit:
        """End the trial and return once nothing of it is left; harmless after the end.

        Raises:
            TunerError: A process of the trial cannot be ended (it hangs in the kernel).
        """
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        for _ in range(2):
            ended = self.wait(_ANSWER_S)
            if ended is not None:
                return ended
            self._process.kill()  # the supervisor itself hangs (it was stopped)
        raise TunerError(f"the supervisor of a trial (process {self._process.pid}) does not end")

    def pids(self) -> tuple[int, ...]:
        """The live processes of the trial, mpirun's own helpers included (some ms to find)."""
        if self._exit is not None:
            return ()
        found = supervisor.descendants(supervisor.processes(), [self._process.pid])
        return tuple(sorted(process.pid for process in found))

    def forward(self, number: int) -> None:
        """Send a signal to the command."""
        with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile
            os.write(self._control, bytes([number]))

    def _receive(self, timeout_s: float) -> dict[str, Any] | None:
        """The next line of the supervisor; ``None`` at a timeout and where it has ended."""
        deadline = time.monotonic() + timeout_s
        poller = select.poll()
        poller.register(self._status, select.POLLIN)
        while b"\n" not in self._received and self._status_open:
            left_s = max(0.0, deadline - time.monotonic())
            if not poller.poll(left_s * 1e3):
                return None
            chunk = os.read(self._status, 1 << 16)
            self._received += chunk
            self._status_open = bool(chunk)
        line, found, rest = self._received.partition(b"\n")
        if not found:
            return None
        self._received = rest
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _conclude(self, answer: dict[str, Any]) -> None:
        """Take the last answer for the end."""
        self._close()
        self._process.wait()
        if answer["left"]:
            self._problem = TunerError(
                f"processes of the trial do not end on SIGKILL: {answer['left']}",
                "they hang in the kernel (a dead network file system or device?)",
            )
            raise self._problem
        self._exit = Exit(answer["code"], answer["wall_s"], answer["stopped"], answer["killed"])

    def _end_without_supervisor(self) -> dict[str, Any]:
        """Clean up after a supervisor that was killed: its command then gets SIGTERM."""
        root = self._process.pid  # not reaped yet, so the id is still its own
        deadline = time.monotonic() + supervisor.TERM_WAIT_S
        while time.monotonic() < deadline and supervisor.survivors(self.marker, root, self._since):
            time.sleep(0.01)
        killed, left = supervisor.sweep(self.marker, root, self._since)
        wall_s = time.monotonic() - self._started_s
        return {"code": None, "wall_s": wall_s, "stopped": True, "killed": killed, "left": left}

    def _close(self) -> None:
        for fd in (self._control, self._status):
            if fd >= 0:
                os.close(fd)
        self._control = self._status = -1
        self._status_open = False


def start(launch: Launch) -> RunningTrial:
    """Start a launch; what it prints goes to ``output.log`` in its folder (mode 0600).

    Raises:
        OSError: The program or the working directory does not exist or may not be used (the
            error names it), or ``output.log`` cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    output = os.open(launch.folder / OUTPUT, flags, 0o600)
    try:
        os.fchmod(output, 0o600)  # it may exist, with another mode
        request = _request(launch.argv, launch.env, launch.cwd)
        return RunningTrial(request, output=output, error=output)
    finally:
        os.close(output)


def run_tool(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a short command without input and collect what it prints.

    Raises:
        TimeoutError: It took longer than ``timeout_s``; it was ended.
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        request = _request(argv, os.environ if env is None else env, Path.cwd())
        running = RunningTrial(request, output=output.fileno(), error=error.fileno())
        try:
            ended = running.wait(timeout_s)
        finally:
            last = running.stop()
        texts = []
        for file in (output, error):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if ended is None:
        raise TimeoutError(f"{argv[0]} does not end within {timeout_s:g} s")
    code = -signal.SIGKILL if last.code is None else last.code
    return subprocess.CompletedProcess(list(argv), code, texts[0], texts[1])


def execute(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a command in the foreground, with this process's terminal; hand signals on to it.

    For the main thread of a program that has nothing else to do.

    Returns:
        Its exit status, 128 + n where signal n ended it. Nothing of it is left running.

    Raises:
        OSError: It cannot be started.
    """
    waited = _FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        request = _request(argv, env, Path.cwd(), foreground=True)
        running = RunningTrial(request, output=None, error=None)
        while (ended := running.poll()) is None:
            seen = signal.sigwaitinfo(waited)
            # Ctrl-C and Ctrl-\ reach the command itself: twice would make mpirun give up at once
            if seen.si_signo in _FORWARDED and seen.si_code != _SI_KERNEL:
                running.forward(seen.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if ended.code is None:
        return 128 + signal.SIGKILL
    return ended.code if ended.code >= 0 else 128 - ended.code


def _request(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, *, foreground: bool = False
) -> dict[str, Any]:
    """What the supervisor is told: bytes as latin-1 text, which any path or value survives."""
    marker = env.get(MARKER, "")
    if not marker or marker == os.environ.get(MARKER):  # tune itself may run inside a trial
        marker = new_marker()
    return {
        "argv": [_text(each) for each in argv],
        "env": {_text(name): _text(value) for name, value in {**env, MARKER: marker}.items()},
        "cwd": _text(str(cwd.absolute())),
        "marker": marker,
        "parent": os.getpid(),
        "foreground": foreground,
    }


def new_marker() -> str:
    """A fresh value for ``TUNE_TRIAL``."""
    return os.urandom(16).hex()


def _text(value: str) -> str:
    return os.fsencode(value).decode("latin-1")
