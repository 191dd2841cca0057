"""Runs targets: seeded, in chunks that do not depend on how many run at a time."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz.target import Target

#: Inputs that one chunk makes of one seed.
CHUNK = 5_000

#: CPU time that one input may take, s: a thousand times what is usual.
LIMIT_S = 5

_HERE = str(Path(__file__).resolve().parent.parent)


class TooSlow(BaseException):
    """One input took more CPU time than `LIMIT_S`."""


@dataclass(frozen=True)
class Finding:
    """An input that broke a target; ``where`` tells findings apart: the error and its place."""

    target: str
    where: str
    data: bytes
    text: str


@dataclass(frozen=True)
class Chunk:
    """What came of some inputs; ``cpu_s`` is what they took, with their making."""

    target: str
    inputs: int
    cpu_s: float
    findings: tuple[Finding, ...]


def chunks(count: int) -> Iterator[tuple[int, int]]:
    """(number, inputs) of each chunk."""
    for number, start in enumerate(range(0, count, CHUNK)):
        yield number, min(CHUNK, count - start)


def run(target: Target, *, seed: int, number: int, inputs: int) -> Chunk:
    """One chunk; the same seed and number give the same inputs everywhere."""
    text = f"{target.name}/{seed}/{number}".encode()
    rng = Random(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"))
    found: dict[str, Finding] = {}
    began = time.process_time()
    with _limited() as arm:
        for _ in range(inputs):
            data = target.make(rng)
            arm()
            finding = attempt(target, data)
            if finding is not None:
                keep(found, finding)
    return Chunk(target.name, inputs, time.process_time() - began, tuple(found.values()))


def attempt(target: Target, data: bytes) -> Finding | None:
    """Give one input to the target; what it raised, if it did."""
    try:
        target.run(data)
    except (Exception, TooSlow) as error:
        trace = "".join(traceback.format_exception(error, limit=-12, chain=False))[-4000:]
        return Finding(target.name, _where(error), data, trace)
    return None


def keep(found: dict[str, Finding], new: Finding) -> None:
    """Add a finding; of each kind the shortest input stays."""
    old = found.get(new.where)
    if old is None or len(new.data) < len(old.data):
        found[new.where] = new


def _where(error: BaseException) -> str:
    """The kind of the error and the last line of this project that it came through."""
    name = type(error).__name__
    if isinstance(error, RecursionError | TooSlow | MemoryError):  # their depth is an accident
        return name
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_HERE)]
    last = (own or frames)[-1]
    return f"{name} at {last.filename.removeprefix(_HERE + '/')}:{last.lineno}"


@contextmanager
def _limited() -> Iterator[Callable[[], None]]:
    """Gives a function that starts the time of an input anew; only a main thread can have one."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        yield lambda: _arm(LIMIT_S)
    finally:
        _arm(0)
        signal.signal(signal.SIGVTALRM, before)


def _arm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
