"""The only package that starts and ends processes.

Every command runs below a supervisor (:mod:`tuner.hosts.supervisor`), which ends it with all that
it started, also when tune itself is killed, and proves that nothing is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tuner.hosts.process import left_over
from tuner.hosts.process.supervised_command import Exit, RunningCommand, SupervisedCommand, hurry
from tuner.hosts.supervisor.cleanup import MARKER
from tuner.hosts.untrusted_files import create
from tuner.model import Launch

__all__ = [
    "MARKER",
    "OUTPUT",
    "Exit",
    "RunningCommand",
    "SupervisedCommand",
    "execute",
    "hurry",
    "run_tool",
    "start",
]

#: The name of the file in a trial's folder that takes the output of the command.
OUTPUT = "output.log"

#: This much of what a short command prints is read, bytes.
_MOST_PRINTED = 16 << 20

#: Where the temporary files of a launch go if its TMPDIR is too long.
_SHORT = "/tmp"
#: The longest folder that still leaves room for ours and for the sockets that MPIs and Python's
#: multiprocessing make below it: a socket's path has at most 108 bytes (unix(7)).
_LONGEST = 50

#: The signals that `tune exec` hands on to its command.
_FORWARDED = frozenset(
    getattr(signal, f"SIG{name}") for name in ("INT", "QUIT", "TERM", "HUP", "USR1", "USR2")
)
#: How often a command in the foreground is looked after, s.
LOOK_S = 0.1
_SI_KERNEL = 0x80  # asm-generic/siginfo.h: sent by the kernel, as the terminal's Ctrl-C is


def start(launch: Launch, *, note: Path | None = None) -> SupervisedCommand:
    """Start a launch; what it prints goes to ``output.log`` in its folder (mode 0600).

    If this process is killed, the next ``tune`` learns of the launch by a file whose name begins
    as ``note``.

    Raises:
        OSError: The program or the working directory does not exist or may not be used (the
            error names it), or ``output.log`` cannot be written.
    """
    output = create(launch.folder / OUTPUT, os.O_APPEND)
    try:
        request = request_of(
            launch.argv, launch.env, launch.cwd, apart=True, waits=launch.waits_for_children
        )
        request["input"] = _text(launch.input or os.devnull)
        if note is not None:
            note = left_over.note_of(note, request["marker"])
            left_over.write(note, request["marker"], request["folder"])
        try:
            return SupervisedCommand(request, output=output, error=output, note=note)
        except BaseException:
            if note is not None:
                left_over.end(note)
            raise
    finally:
        os.close(output)


def run_tool(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> subprocess.CompletedProcess[str]:
    """Run a short command without input and collect what it prints.

    Raises:
        TimeoutError: It took longer than ``timeout_s``, or printed more than 16 MiB; it was ended.
        OSError: It cannot be started.
        KeyboardInterrupt: Cancelled.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        request = request_of(argv, os.environ if env is None else env, Path.cwd())
        running = SupervisedCommand(request, output=output.fileno(), error=error.fileno())
        exit_, is_too_much, end_s = None, False, time.monotonic() + timeout_s
        try:
            while exit_ is None and not is_too_much and (left_s := end_s - time.monotonic()) > 0:
                exit_ = running.wait(min(0.02, left_s))
                if cancelled():
                    raise KeyboardInterrupt
                sizes = (os.fstat(file.fileno()).st_size for file in (output, error))
                is_too_much = max(sizes) > _MOST_PRINTED
        finally:
            final_exit = running.stop()
        texts = []
        for file in (output, error):
            file.seek(0)
            texts.append(file.read(_MOST_PRINTED).decode(errors="replace"))
    if is_too_much or exit_ is None:
        what = "prints without an end" if is_too_much else f"does not end within {timeout_s:g} s"
        raise TimeoutError(f"{argv[0]} {what}")
    code = -signal.SIGKILL if final_exit.code is None else final_exit.code
    return subprocess.CompletedProcess(list(argv), code, texts[0], texts[1])


class Ended(NamedTuple):
    """How a command in the foreground ended; nothing of it is left running."""

    code: int  # its exit status, 128 + n where signal n ended it
    why: str  # what ended it from outside; empty: nothing, or a signal that we handed on


def execute(
    argv: Sequence[str], env: Mapping[str, str], lost: Callable[[], str] = lambda: ""
) -> Ended:
    """Run a command in the foreground, with this process's terminal; hand signals on to it.

    The main thread of a program calls it, and does nothing else meanwhile. The command is ended
    once ``lost`` says which host is lost; it is asked every `LOOK_S`.

    Raises:
        OSError: It cannot be started.
    """
    signals = _FORWARDED | {signal.SIGCHLD}
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        request = request_of(argv, env, Path.cwd(), foreground=True)
        running = SupervisedCommand(request, output=None, error=None)
        is_asked_to_end = False
        while (exit_ := running.poll()) is None:
            if lost():  # an mpirun may wait for the host for ever
                exit_ = running.stop()
                break
            info = signal.sigtimedwait(signals, LOOK_S)
            if info is None or info.si_signo not in _FORWARDED:
                continue
            is_asked_to_end |= info.si_signo not in {signal.SIGUSR1, signal.SIGUSR2}
            # Ctrl-C and Ctrl-\ reach the command itself: twice would make mpirun give up at once
            if info.si_code != _SI_KERNEL:
                running.forward(info.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
    code = -signal.SIGKILL if exit_.code is None else exit_.code
    code = code if code >= 0 else 128 - code
    # Launchers end with such a code, too, if a signal or a lost host has ended a rank.
    by_signal = f"exit code {code}" if code > 128 and not is_asked_to_end else ""
    return Ended(code, lost() or by_signal)


def request_of(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    *,
    foreground: bool = False,
    apart: bool = False,
    waits: bool = False,
) -> dict[str, Any]:
    """Build the request to a supervisor: bytes as latin-1 text, which any path or value survives.

    ``apart``: the command gets a folder of its own for temporary files. ``waits``: it counts as
    running until all that it started has ended.
    """
    marker = env.get(MARKER, "")
    if not marker or marker == os.environ.get(MARKER):  # tune itself may run inside a trial
        marker = os.urandom(16).hex()
    tmpdir = env.get("TMPDIR", "")
    fits = tmpdir.startswith("/") and tmpdir.isascii() and len(tmpdir) <= _LONGEST
    name = left_over.name_of(marker)
    home = os.path.expanduser("~")  # noqa: PTH111 (Path.expanduser raises if there is none)
    # Open MPI does not start without a home folder.
    variables = {"HOME": home if home.startswith("/") else "/", **env, MARKER: marker}
    return {
        "argv": [_text(word) for word in argv],
        "env": {_text(name): _text(value) for name, value in variables.items()},
        "cwd": _text(str(cwd.absolute())),
        "marker": marker,
        "parent": os.getpid(),
        "foreground": foreground,
        "waits": waits,
        "folder": str(Path(tmpdir if fits else _SHORT) / name) if apart else "",
    }


def _text(value: str) -> str:
    return os.fsencode(value).decode("latin-1")
