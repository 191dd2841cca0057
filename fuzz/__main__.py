"""``python -m fuzz [NAME …] --count N --seed S --jobs J [--guided]``: a table, and what was found.

``--count`` is the number of inputs in all, shared out by the targets' shares. What breaks a
parser is printed with its input and kept below ``--out``; the exit code is then 1. ``--guided``
lets atheris choose the inputs by coverage, where it is installed (``pip install atheris``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fuzz import engine, guided, pool
from fuzz.targets import TARGETS

#: After so many chunks it is said how far it is.
_TOLD = 100


@dataclass
class _Row:
    """What is known of one target so far."""

    inputs: int = 0
    cpu_s: float = 0.0
    findings: dict[str, engine.Finding] = field(default_factory=dict)

    def add(self, chunk: engine.Chunk) -> None:
        self.inputs += chunk.inputs
        self.cpu_s += chunk.cpu_s
        for finding in chunk.findings:
            engine.keep(self.findings, finding)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 where something was found."""
    given = _arguments(argv)
    names = given.names or list(TARGETS)
    if given.input:
        return _replay(names, Path(given.input).read_bytes())
    counts = shares(names, given.count)
    run = pool.guided_chunks if given.guided else pool.seeded_chunks
    rows = {name: _Row() for name in names}
    for number, chunk in enumerate(run(counts, given.seed, given.jobs), start=1):
        new = [f for f in chunk.findings if f.where not in rows[chunk.target].findings]
        rows[chunk.target].add(chunk)
        for finding in new:
            print(f"FOUND {finding.target}: {finding.where}: {finding.data[:200]!r}", flush=True)
        if number % _TOLD == 0:
            print(f"{_total(rows.values()).inputs:,} inputs", file=sys.stderr, flush=True)
    print(table(rows))
    found = [each for row in rows.values() for each in row.findings.values()]
    _write(Path(given.out), found)
    return 1 if found else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(TARGETS))
    parser.add_argument("--count", type=int, default=100_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    parser.add_argument("--out", default="build/fuzz", help="folder for inputs that broke one")
    parser.add_argument("--input", help="give this file to the targets, and nothing else")
    given = parser.parse_args(argv)
    unknown = [name for name in given.names if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; known: {' '.join(TARGETS)}")
    if given.guided and not guided.is_available():
        parser.error("--guided needs atheris: pip install atheris")
    return given


def shares(names: Iterable[str], count: int) -> dict[str, int]:
    """How many inputs each target gets of `count`; at least one."""
    weights = {name: TARGETS[name].share for name in names}
    return {
        name: max(1, round(count * share / sum(weights.values())))
        for name, share in weights.items()
    }


def _replay(names: Iterable[str], data: bytes) -> int:
    found = [each for name in names if (each := engine.attempt(TARGETS[name], data))]
    for finding in found:
        print(f"{finding.target}: {finding.where}\n{finding.text}")
    return 1 if found else 0


def table(rows: dict[str, _Row]) -> str:
    """Target, inputs, inputs per second of CPU time, findings."""
    lines = [f"{'target':<16} {'inputs':>11} {'inputs/s':>9} {'findings':>9}"]
    for name, row in [*rows.items(), ("all", _total(rows.values()))]:
        rate = row.inputs / row.cpu_s if row.cpu_s else 0.0
        lines.append(f"{name:<16} {row.inputs:>11,} {rate:>9,.0f} {len(row.findings):>9}")
    return "\n".join(lines)


def _total(rows: Iterable[_Row]) -> _Row:
    total = _Row()
    for row in rows:
        total.inputs += row.inputs
        total.cpu_s += row.cpu_s
        total.findings |= {f"{f.target} {f.where}": f for f in row.findings.values()}
    return total


def _write(folder: Path, found: Iterable[engine.Finding]) -> None:
    """Keep each input beside what it raised."""
    for finding in found:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{finding.target}-{sha256(finding.where.encode()).hexdigest()[:8]}"
        (folder / name).write_bytes(finding.data)
        (folder / f"{name}.txt").write_text(f"{finding.where}\n{finding.text}\n", errors="replace")
        print(f"kept {folder / name}: {finding.where}")


if __name__ == "__main__":
    sys.exit(main())
