"""The same targets under atheris, which chooses the inputs by what code they reach."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from fuzz import engine

#: Of the inputs in the corpus so many are made anew, not mutated, by the target's own source.
_FRESH = 0.3
_SEEDS = 300
_DONE = re.compile(r"Done (\d+) (?:runs|in)|#(\d+)\s+DONE")


def is_available() -> bool:
    """True where atheris can be imported."""
    return find_spec("atheris") is not None


def run(name: str, seed: int, inputs: int) -> engine.Chunk:
    """One target in a process of its own: libFuzzer ends the process that it runs in."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "fuzz.guided", name, str(seed), str(inputs), folder]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
        file = Path(folder) / "findings"
        findings = pickle.loads(file.read_bytes()) if file.exists() else {}
    match = _DONE.search(done.stderr)
    count = int(match[1] or match[2]) if match else 0
    if not count:
        found = engine.Finding(name, f"ended with {done.returncode}", b"", done.stderr[-4000:])
        findings[found.where] = found
    return engine.Chunk(name, count, time.monotonic() - began, tuple(findings.values()))


def _main(name: str, seed: int, inputs: int, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["tuner"]):
        from fuzz.targets import TARGETS
    target = TARGETS[name]
    found: dict[str, engine.Finding] = {}

    def one(data: bytes) -> None:
        finding = engine.attempt(target, data)
        if finding is not None and finding.where not in found:
            engine.keep(found, finding)
            (folder / "findings").write_bytes(pickle.dumps(found))

    def mutate(data: bytes, most: int, number: int) -> bytes:
        rng = Random(number)
        if rng.random() < _FRESH:
            return target.make(rng)[:most]
        mutated: bytes = atheris.Mutate(data, most)
        return mutated

    corpus = folder / "corpus"
    corpus.mkdir()
    rng = Random(seed)
    for number in range(_SEEDS):
        (corpus / f"{number}").write_bytes(target.make(rng))
    options = [f"-runs={inputs}", f"-seed={seed + 1}", "-max_len=4096", "-timeout=30"]
    mutators: dict[str, Any] = {"custom_mutator": mutate}
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, **mutators)
    atheris.Fuzz()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
