"""Twenty processes want to measure at once: never two do, and each gets its turn.

``python -m campaigns.races --rounds 200 --seed 1`` prints one JSON line. Forked from one
process, so that they really come at once; the lock is the real one, the measurement is a note of
its begin and its end. Some owners are killed in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import lock
from tuner.hosts.process import left_over  # noqa: F401 (loaded before the forks)
from tuner.model.errors import BusyError

PROCESSES = 20
#: How long one measures, s: long enough to be caught by any other.
MEASURE_S = 0.004
PATIENCE_S = 120.0


class Part(NamedTuple):
    """What one of the processes does."""

    study: str
    wait: bool
    is_killed: bool


def play(folder: Path, cast: list[Part]) -> list[str]:
    """One round: the notes in the order in which they were written."""
    notes = folder / "notes"
    os.environ[lock.LOCK_DIR_VARIABLE] = str(folder / "lock")
    gate, opener = os.pipe()
    children = []
    for part in cast:
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            os.read(gate, 1)
            os._exit(_act(part, notes))
        children.append(pid)
    os.close(gate)
    os.close(opener)  # all of them go on
    deadline = time.monotonic() + PATIENCE_S
    for pid in children:
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                for each in children:
                    os.kill(each, signal.SIGKILL)
                raise SystemExit(f"process {pid} waits for ever")
            time.sleep(0.001)
    return notes.read_text().splitlines() if notes.exists() else []


def _act(part: Part, notes: Path) -> int:
    def note(word: str) -> None:
        fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{word} {os.getpid()}\n".encode())
        os.close(fd)

    try:
        with lock.measuring(part.study, environ=os.environ, wait=part.wait):
            note("begin")
            time.sleep(MEASURE_S)
            note("killed" if part.is_killed else "end")
            if part.is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
    except BusyError:
        note("refused")
    except BaseException as error:
        note(f"failed:{type(error).__name__}")
    return 0


def mistakes(notes: list[str], cast: list[Part]) -> Iterator[str]:
    """What went wrong in a round."""
    owner = ""
    counts = Counter(line.split()[0] for line in notes)
    for line in notes:
        word, pid = line.split()
        if word == "begin":
            if owner:
                yield f"{pid} began while {owner} measured"
            owner = pid
        elif word in {"end", "killed"}:
            if owner != pid:
                yield f"{pid} ended in the time of {owner or 'nobody'}"
            owner = ""
        elif word != "refused":
            yield line
    if counts["begin"] + counts["refused"] != len(cast):
        yield f"{counts['begin'] + counts['refused']} of {len(cast)} had their turn"
    if counts["refused"] and all(part.wait for part in cast):
        yield f"{counts['refused']} that wait were refused"
    if not counts["begin"]:
        yield "nobody measured"


def main() -> int:
    """Rounds with one study and with two, now and then of processes that do not wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    lock.POLL_S = 0.005
    rng = random.Random(chosen.seed)
    wrong: list[str] = []
    words = Counter[str]()
    for number in range(chosen.rounds):
        cast = [
            Part(f"study-{each % (1 + number % 2)}", number % 5 != 4, rng.random() < 0.25)
            for each in range(PROCESSES)
        ]
        with tempfile.TemporaryDirectory() as name:
            notes = play(Path(name), cast)
        words.update(line.split()[0] for line in notes)
        wrong += [f"round {number}: {text}" for text in mistakes(notes, cast)]
    print(json.dumps({"notes": words, "wrong": wrong, **vars(chosen)}))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
