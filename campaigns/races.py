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
from dataclasses import dataclass
from pathlib import Path

import tuner.hosts.lock
from tuner.hosts import lock
from tuner.hosts.process import left_over  # noqa: F401 (loaded before the forks)
from tuner.model.errors import BusyError

PROCESSES = 20
#: How long one measures, s: long enough to be caught by any other.
MEASURE_S = 0.004
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Part:
    """What one of the processes does."""

    study: str
    wait: bool
    end: str  # "well" or "killed"


def parts(rng: random.Random, studies: int, *, wait: bool) -> list[Part]:
    """One round's processes."""
    ends = ("well", "well", "well", "killed")
    return [
        Part(f"study-{number % studies}", wait, rng.choice(ends)) for number in range(PROCESSES)
    ]


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
            os._exit(_act(part, gate, notes))
        children.append(pid)
    os.close(gate)
    os.close(opener)  # all of them go on
    for pid in children:
        _wait(pid, children)
    return notes.read_text().splitlines() if notes.exists() else []


def _act(part: Part, gate: int, notes: Path) -> int:
    def note(word: str) -> None:
        fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{word} {os.getpid()}\n".encode())
        os.close(fd)

    os.read(gate, 1)
    try:
        with lock.measuring(part.study, environ=os.environ, wait=part.wait):
            note("begin")
            time.sleep(MEASURE_S)
            note("killed" if part.end == "killed" else "end")
            if part.end == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
    except BusyError:
        note("refused")
    except BaseException as error:
        note(f"failed:{type(error).__name__}")
    return 0


def _wait(pid: int, children: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            for each in children:
                os.kill(each, signal.SIGKILL)
            raise SystemExit(f"process {pid} waits for ever")
        time.sleep(0.001)


def mistakes(notes: list[str], cast: list[Part]) -> list[str]:
    """What went wrong in a round."""
    found = []
    owner = ""
    counts: Counter[str] = Counter()
    for line in notes:
        word, pid = line.split()
        counts[word] += 1
        if word == "begin":
            if owner:
                found.append(f"{pid} began while {owner} measured")
            owner = pid
        elif word in {"end", "killed"}:
            if owner != pid:
                found.append(f"{pid} ended in the time of {owner or 'nobody'}")
            owner = ""
        elif word != "refused":
            found.append(line)
    turns = counts["begin"] + counts["refused"]
    if turns != len(cast):
        found.append(f"{turns} of {len(cast)} had their turn")
    if all(part.wait for part in cast) and counts["refused"]:
        found.append(f"{counts['refused']} that wait were refused")
    if not counts["begin"]:
        found.append("nobody measured")
    return found


def campaign(rounds: int, seed: int) -> dict[str, object]:
    """Rounds with one study and with two, of those that wait, and now and then of others."""
    tuner.hosts.lock.POLL_S = 0.005
    rng = random.Random(seed)
    wrong: list[str] = []
    words: Counter[str] = Counter()
    for number in range(rounds):
        cast = parts(rng, studies=1 + number % 2, wait=number % 5 != 4)
        with tempfile.TemporaryDirectory() as name:
            notes = play(Path(name), cast)
        words.update(line.split()[0] for line in notes)
        wrong += [f"round {number}: {text}" for text in mistakes(notes, cast)]
    return {"rounds": rounds, "seed": seed, "notes": dict(words), "wrong": wrong}


def main() -> int:
    """Print the result of a campaign; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    result = campaign(asked.rounds, asked.seed)
    print(json.dumps(result))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
