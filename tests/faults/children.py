"""Runs that need a process of their own: ``tune`` that is killed, a terminal, a small disk."""

from __future__ import annotations

import os
import pickle
import pty
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tests.faults import disks
from tests.faults.bench import Bench

if TYPE_CHECKING:
    from tests.faults.case import Report

#: For a process that is due to end, s.
PATIENCE_S = 60.0

T = TypeVar("T")


def study(bench: Bench) -> str:
    """Run the study with its fault in a child: how it ended, once nothing of it is left."""
    terminal = bench.fault.terminal
    child, master = pty.fork() if terminal else (os.fork(), -1)
    if child == 0:
        _be_tune(bench)
    if terminal:
        _hang_up(master)
    status = _wait(child)
    ended_s = time.monotonic()
    while not bench.fault.swept and _left(bench) and time.monotonic() < ended_s + PATIENCE_S:
        time.sleep(0.02)
    bench.diary.note("cleanup", 1, time.monotonic() - ended_s)
    for each in [] if bench.fault.swept else _left(bench):
        bench.diary.note("problem", 1, f"after the end of tune: {each}")
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return (bench.folder / "ended").read_text()


def _left(bench: Bench) -> list[str]:
    """What is left; a note for the next owner of the lock may be."""
    return [each for each in bench.left() if not each.startswith("note")]


def _be_tune(bench: Bench) -> None:
    """In the child; never returns."""
    code = 1
    try:
        if not bench.fault.terminal:
            os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, handler)
        ended = bench.study(faulty=True)
        (bench.folder / "ended").write_text(ended)
        code = 0
    except BaseException:
        (bench.folder / "ended").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _hang_up(master: int) -> None:
    """Close the terminal, once the child says so."""
    said = b""
    while b"hang up" not in said:
        try:
            chunk = os.read(master, 1024)
        except OSError:  # the child has ended
            break
        said += chunk
    os.close(master)


def _wait(child: int) -> int:
    """The child's exit status, negative for a signal; it is killed where it does not end."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], PATIENCE_S)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def with_a_disk(bench: Bench, work: Callable[[Bench], list[Report]]) -> list[Report]:
    """Do the work in a child, one of whose folders is a small disk."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        found: list[Report] | str = ""
        try:
            os.close(read)
            disks.own_mounts()
            disks.mount(bench.folder / ("db" if bench.fault.disk == "database" else "outputs"))
            found = work(bench)
        except BaseException:
            found = traceback.format_exc()
        finally:
            with os.fdopen(write, "wb") as pipe:
                pipe.write(pickle.dumps(found))
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    reports: list[Report] | str = pickle.loads(data)
    if isinstance(reports, str):
        raise RuntimeError(reports)
    return reports
