"""Twenty processes want to measure at once: never two do, and each gets its turn.

``python -m campaigns.races --rounds 200 --seed 1`` prints one JSON line. Forked from one
process, so that they really come at once; the lock is the real one, the measurement is a note of
its begin and its end. Some owners are killed in the middle.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
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
    study: str
    wait: bool
    is_killed: bool


def play(folder: Path, cast: list[Part]) -> list[str]:
    """One round: the notes in the order in which they were written."""
    notes = folder / "notes"
    notes.touch()
    os.environ[lock.LOCK_DIR_VARIABLE] = str(folder / "lock")
    context = get_context("fork")
    gate = context.Barrier(len(cast))
    children = [context.Process(target=_act, args=(part, notes, gate)) for part in cast]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE_S)
        if child.is_alive():
            for each in children:
                each.kill()
            raise SystemExit(f"process {child.pid} waits for ever")
    return notes.read_text().splitlines()


def _act(part: Part, notes: Path, gate: Barrier) -> None:
    def note(word: str) -> None:
        with notes.open("a") as file:
            file.write(f"{word} {os.getpid()}\n")

    gate.wait()
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


def mistakes(notes: list[str], cast: list[Part]) -> Iterator[str]:
    counts = Counter(line.split()[0] for line in notes)
    turns = [line.split() for line in notes if not line.startswith("refused")]
    for begin, end in itertools.zip_longest(turns[::2], turns[1::2], fillvalue=["nothing", ""]):
        if begin[0] != "begin" or end[0] not in {"end", "killed"} or begin[1] != end[1]:
            yield f"{' '.join(begin)}, then {' '.join(end)}"
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
