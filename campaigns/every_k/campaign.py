"""Runs cases and says what went wrong in each."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from campaigns.every_k import model
from campaigns.every_k.bench import Bench
from campaigns.every_k.cases import Case, Fault
from campaigns.every_k.server import Reply


@dataclass(frozen=True)
class Verdict:
    """A case with all that is wrong; ``struck`` says that its first fault came."""

    case: Case
    wrong: tuple[str, ...]
    struck: bool


@dataclass(frozen=True)
class Clean:
    """A study without faults: how often each kind is done, and what is kept."""

    counts: dict[str, int]
    kept: tuple[model.Kept, ...]


def clean(bench: Bench) -> Clean:
    """Run it."""
    folder = bench.folder / "clean"
    reply = bench.run(folder)
    said = (folder / "stderr").read_text()
    assert reply.code == 0, said
    kept = model.launches(folder / "work" / "tune.db")
    must = set(model.diary(folder).ended)
    wrong = [
        *model.stated(folder, reply, killed=False, text=said),
        *model.lasting(folder, must, kept),
    ]
    assert not wrong, wrong
    return Clean(reply.counts, tuple(kept))


def verdicts(bench: Bench, cases: Iterable[Case], whole: Clean) -> Iterator[Verdict]:
    """Each case in a folder of its own, which is left where something is wrong."""
    for number, case in enumerate(cases):
        folder = bench.folder / f"case-{number}"
        struck, wrong = _played(bench, folder, case, whole)
        if not wrong:
            shutil.rmtree(folder)
        yield Verdict(case, tuple(wrong), struck)


def _played(bench: Bench, folder: Path, case: Case, whole: Clean) -> tuple[bool, list[str]]:
    wrong: list[str] = []
    must: set[float] = set()
    struck = False
    for fault in (*case.faults, None):
        before = _ended(folder)
        reply, text = _run(bench, folder, fault)
        killed = fault is not None and fault.error == 0
        wrong += model.stated(folder, reply, killed=killed, text=text)
        must |= _kept(folder)
        if fault is None or not (killed or fault.lasts):
            # One fault hits the launch's own record or the database, never both.
            must |= _ended(folder) - before
        if fault is not None:
            struck |= reply.code != 0 or fault.at <= reply.counts.get(fault.kind, 0)
    if reply.code != 0:
        return struck, [*wrong, f"no recovery: {text.strip()[-300:]}"]
    return struck, wrong + list(model.lasting(folder, must, whole.kept))


def _ended(folder: Path) -> set[float]:
    """Times of all launches that came to their end so far."""
    return set(model.diary(folder).ended) if (folder / "diary").exists() else set()


def _kept(folder: Path) -> set[float]:
    """Of those that were reported, or whose own record is on the disk."""
    if not (folder / "diary").exists():
        return set()
    reported = {elapsed_s for _, elapsed_s in model.diary(folder).reported}
    return reported | model.journaled(folder)


def _run(bench: Bench, folder: Path, fault: Fault | None) -> tuple[Reply, str]:
    stderr = folder / "stderr"
    before = stderr.stat().st_size if stderr.exists() else 0
    if fault is None:
        reply = bench.run(folder)
    else:
        reply = bench.run(folder, fault.kind, fault.at, fault.error, lasts=fault.lasts)
    return reply, stderr.read_bytes()[before:].decode()
