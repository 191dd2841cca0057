"""A thread of another process is looked at, and goes on as if nothing had been."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.launch import tracing

SPIN = "import os\nprint(os.getpid(), flush=True)\nwhile True: pass"
NAP = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)"


@pytest.fixture
def started() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a Python and wait until it runs."""
    running: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None and process.stdout.readline()
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


def in_a_thread(look: Callable[[], object]) -> list[object]:
    """What a look gives in a thread of its own: with its end the kernel lets go."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(look())
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if found and isinstance(found[0], PermissionError):
        assert not may_trace(), "it was not let go"
        pytest.skip("ptrace is not allowed here")
    return found


def may_trace() -> bool:
    """True where a look at a child's system call, which needs the same right, is allowed."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        Path(f"/proc/{child.pid}/syscall").read_text()
    except OSError:
        return False
    finally:
        child.kill()
        child.communicate()
    return True


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def becomes(pid: int, letters: str) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if state(pid) in letters:
            return True
        time.sleep(0.01)
    return False


def test_the_address_lies_in_the_process(started: Callable[[str], subprocess.Popen[str]]) -> None:
    pid = started(SPIN).pid
    (address,) = in_a_thread(lambda: tracing.program_counter(pid))
    maps = Path(f"/proc/{pid}/maps").read_text()
    spans = [line.split()[0].split("-") for line in maps.splitlines()]
    assert isinstance(address, int)
    assert any(int(low, 16) <= address < int(high, 16) for low, high in spans)


@pytest.mark.parametrize(("code", "letters"), [(SPIN, "R"), (NAP, "S")])
def test_it_goes_on_afterwards(
    started: Callable[[str], subprocess.Popen[str]], code: str, letters: str
) -> None:
    pid = started(code).pid
    for _ in range(5):
        in_a_thread(lambda: tracing.program_counter(pid))
        assert becomes(pid, letters)
    assert "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text()


def test_it_is_let_go_at_once(started: Callable[[str], subprocess.Popen[str]]) -> None:
    pid = started(SPIN).pid
    (found,) = in_a_thread(lambda: [tracing.program_counter(pid) for _ in range(3)])
    assert isinstance(found, list) and all(isinstance(each, int) for each in found)


def test_a_stopped_process_stays_stopped(started: Callable[[str], subprocess.Popen[str]]) -> None:
    pid = started(NAP).pid
    os.kill(pid, signal.SIGSTOP)
    assert becomes(pid, "T")
    in_a_thread(lambda: tracing.program_counter(pid))
    assert becomes(pid, "T")


def test_what_is_gone_has_no_address(started: Callable[[str], subprocess.Popen[str]]) -> None:
    process = started(NAP)
    process.kill()
    process.wait()
    assert in_a_thread(lambda: tracing.program_counter(process.pid)) == [None]


def test_another_machine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        tracing.program_counter(1)
