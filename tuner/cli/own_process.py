"""The process that ``tune`` is: its streams, its signals, its folder and its memory."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
from typing import TextIO

from tuner.model.errors import UsageError

#: Address space that the libraries of a study take, and each thread of OpenBLAS, bytes.
NEEDED, NEEDED_PER_CORE = 320 << 20, 16 << 20


class _Output(io.FileIO):
    """A standard stream whose file may be full or gone.

    Without its results ``tune`` has failed. Progress that nobody can read ends no study. A closed
    pipe ends both: the reader wants no more.
    """

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            discard(self.fileno())
            raise
        except OSError as error:
            if self.fileno() == 2:
                return memoryview(data).nbytes  # type: ignore[arg-type]
            discard(self.fileno())
            raise UsageError(
                f"the output cannot be written: {error.strerror}",
                "free space, or send it elsewhere; `tune show` prints the result of a study again",
            ) from error


def take_over() -> None:
    """Make the process ``tune``'s own.

    Who ignores SIGHUP or SIGINT for us (``nohup``, a script's ``&``) means it. The others do what
    they always do: without SIGTERM nobody could end us, without SIGCHLD no child would be waited
    for.
    """
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            setattr(sys, name, _own(stream))


def _own(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def end_at_once() -> None:
    """From now on Ctrl-C ends the process without a word: Python's own end takes a moment."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def discard(stream: int) -> None:
    """Let what is still to be written to a stream go nowhere: Python writes it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def require_usable() -> None:
    """Check what every command needs.

    Raises:
        UsageError: The current folder was deleted, or the address space is too small.
    """
    try:
        os.getcwd()  # noqa: PTH109 (pathlib costs start-up time)
    except OSError as error:
        raise UsageError(
            f"the current folder cannot be used: {error.strerror} (it was deleted or moved)",
            "cd to a folder that exists, and type the command again",
        ) from error
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _needed():
        raise UsageError(*out_of_memory())


def _needed() -> int:
    return NEEDED + NEEDED_PER_CORE * len(os.sched_getaffinity(0))


def out_of_memory() -> tuple[str, str]:
    """Return what to say, and what to do, if memory does not suffice."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < 4 * _needed():
        return (
            f"ulimit -v {limit >> 10} leaves tune too little memory: it takes"
            f" {_needed() >> 20} MiB, the programs that it starts take more",
            "ulimit -v unlimited, and type the same command again",
        )
    return "the memory does not suffice", "free memory, and type the same command again"
