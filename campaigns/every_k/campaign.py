"""The cases, a server that runs them, and what went wrong in each."""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from campaigns.every_k import model
from campaigns.every_k.server import Reply, Request

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

MPIRUN = "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n"

#: Five trials, a warm-up and the baseline.
STUDY = """\
name = "surface"
command = ["true", "--out", "{out}", "-t", "{omp_threads}", "-j", "{iterator_workers}"]
mpi_procs = 2

[knobs.omp_threads]
range = "1..4"
default = 4

[knobs.iterator_workers]
range = "1..3"
default = 3
"""

ARGUMENTS = (
    *("--study", "../../study.toml", "--trials", "5", "--no-confirm", "--min-gain", "0.1%"),
    *("--live", "off"),
    *("--storage", "tune.db", "--mpirun", "../../mpirun"),
)

#: Kind, error, and whether it lasts.
FAMILIES = (
    *((kind, 0, False) for kind in ("commit", "fsync", "rename")),
    *(("write", error, lasts) for error in (errno.ENOSPC, errno.EIO) for lasts in (False, True)),
    *(("lock", errno.EAGAIN, lasts) for lasts in (False, True)),
)


@dataclass(frozen=True)
class KthFault:
    """Of ``kind`` the ``at``-th fails with ``error`` (0: the process is killed before it)."""

    kind: str
    at: int
    error: int
    lasts: bool = False

    @property
    def family(self) -> str:
        """What it has in common with those at other places."""
        what = errno.errorcode[self.error] if self.error else "kill"
        return f"{what} at {self.kind}{', for ever' if self.lasts else ''}"

    def __str__(self) -> str:
        return f"{self.family}, {self.at}"


@dataclass(frozen=True)
class FaultCase:
    """One fault, or one and another during the recovery."""

    faults: tuple[KthFault, ...]

    @property
    def family(self) -> str:
        """What the table calls it."""
        return self.faults[0].family if len(self.faults) == 1 else "a second fault in recovery"

    def __str__(self) -> str:
        return " then ".join(map(str, self.faults))


@dataclass(frozen=True)
class CaseVerdict:
    """A case with all that is wrong; ``struck`` says that its first fault came."""

    case: FaultCase
    wrong: tuple[str, ...]
    struck: bool


@dataclass(frozen=True)
class CleanStudy:
    """A study without faults: how often each kind is done, and what is kept."""

    counts: dict[str, int]
    kept: tuple[model.Kept, ...]


# --- the cases -----------------------------------------------------------------------------


def every(counts: Mapping[str, int], seed: int) -> list[FaultCase]:
    """All cases of a study that does each kind so often, and as many pairs as a mean family has."""
    single = [
        KthFault(kind, at, error, lasts)
        for kind, error, lasts in FAMILIES
        for at in range(1, counts[kind] + 1)
    ]
    rng = random.Random(seed)

    def any_fault() -> KthFault:
        """Of any family, early ones more often: a recovery has less to do."""
        kind, error, lasts = rng.choice(FAMILIES)
        return KthFault(kind, 1 + int(counts[kind] * rng.random() ** 2), error, lasts)

    pairs = (FaultCase((any_fault(), any_fault())) for _ in range(len(single) // len(FAMILIES)))
    return [*(FaultCase((fault,)) for fault in single), *pairs]


def sample(cases: list[FaultCase], share: float, seed: int, least: int = 1) -> list[FaultCase]:
    """A share of the cases, of each family at least so many."""
    rng = random.Random(seed)
    families: dict[str, list[FaultCase]] = {}
    for case in cases:
        families.setdefault(case.family, []).append(case)
    chosen: list[FaultCase] = []
    for members in families.values():
        number = max(least, round(share * len(members)))
        chosen += rng.sample(members, min(number, len(members)))
    return chosen


# --- how they are run ----------------------------------------------------------------------


class StudyServer:
    """A server and the folders of its cases, in memory if that is possible."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self.folder = server, folder

    def run(self, case: Path, fault: KthFault | None = None) -> tuple[Reply, str]:
        """Run the study's command in the folder of a case; gives what it wrote to stderr, too."""
        case.mkdir(exist_ok=True)
        stderr = case / "stderr"
        before = stderr.stat().st_size if stderr.exists() else 0
        request = Request(str(case), ARGUMENTS, **(asdict(fault) if fault else {}))
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asdict(request)) + "\n")
        self._server.stdin.flush()
        reply = Reply(**json.loads(self._server.stdout.readline()))
        return reply, stderr.read_bytes()[before:].decode() if stderr.exists() else ""


@contextmanager
def started() -> Iterator[StudyServer]:
    """A server that works in a folder of its own, in which the bad cases stay."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "there is no C compiler"
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="every-k-", dir=memory))
    shim = folder / "shim.so"
    flags = ("-O1", "-shared", "-fPIC", "-ldl")
    subprocess.run([compiler, HERE / "shim.c", "-o", shim, *flags], check=True)
    mpirun = folder / "mpirun"
    mpirun.write_text(MPIRUN)
    mpirun.chmod(0o755)
    (folder / "study.toml").write_text(STUDY)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TUNE_", "OMP_"))},
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",  # a fork has one thread
        "COLUMNS": "100",
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "campaigns.every_k.server"],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        found = StudyServer(server, folder)
        found.run(folder / "warm-up")
        yield found
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        if not list(folder.glob("case-*")):
            shutil.rmtree(folder)


def clean(server: StudyServer) -> CleanStudy:
    """Run a study without faults."""
    folder = server.folder / "clean"
    reply, text = server.run(folder)
    assert reply.code == 0, text
    kept = model.launches(folder / "work" / "tune.db")
    must = set(model.diary(folder).ended)
    wrong = [
        *model.stated(folder, reply, killed=False, text=text),
        *model.lasting(folder, must, kept),
    ]
    assert not wrong, wrong
    return CleanStudy(reply.counts, tuple(kept))


def verdicts(
    server: StudyServer, cases: Iterable[FaultCase], whole: CleanStudy
) -> Iterator[CaseVerdict]:
    """Each case in a folder of its own, which is left if something is wrong."""
    for number, case in enumerate(cases):
        folder = server.folder / f"case-{number}"
        verdict = _verdict(server, folder, case, whole)
        if not verdict.wrong:
            shutil.rmtree(folder)
        yield verdict


def _verdict(server: StudyServer, folder: Path, case: FaultCase, whole: CleanStudy) -> CaseVerdict:
    wrong: list[str] = []
    must: set[float] = set()  # times of the launches that may not be lost
    struck = False
    for fault in (*case.faults, None):
        before = set(model.diary(folder).ended)
        reply, text = server.run(folder, fault)
        killed = fault is not None and fault.error == 0
        wrong += model.stated(folder, reply, killed=killed, text=text)
        seen = model.diary(folder)
        must |= {elapsed_s for _, elapsed_s in seen.reported} | model.journaled(folder)
        if fault is None or not (killed or fault.lasts):
            # One fault hits the launch's own record or the database, never both.
            must |= set(seen.ended) - before
        if fault is not None:
            struck |= reply.code != 0 or fault.at <= reply.counts.get(fault.kind, 0)
    if reply.code != 0:
        wrong.append(f"no recovery: {text.strip()[-300:]}")
    else:
        wrong += model.lasting(folder, must, whole.kept)
    return CaseVerdict(case, tuple(wrong), struck)


def main() -> int:
    """Print a table: what failed, how many cases, good and bad; the bad ones before."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.every_k")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of all cases")
    parser.add_argument("--part", default="1/1", help="2/4: the second of four parts")
    parser.add_argument("--only", default="", help="families with this in their name")
    chosen = parser.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    count, bad, idle = Counter[str](), Counter[str](), Counter[str]()
    begun_s = time.monotonic()
    with started() as server:
        whole = clean(server)
        cases = sample(every(whole.counts, chosen.seed), chosen.share, chosen.seed)
        cases = [case for case in cases if chosen.only in case.family]
        print(f"a study without a fault does {whole.counts}")
        for verdict in verdicts(server, cases[part - 1 :: parts], whole):
            count[verdict.case.family] += 1
            idle[verdict.case.family] += not verdict.struck
            if verdict.wrong:
                bad[verdict.case.family] += 1
                print(f"BAD {verdict.case}: {'; '.join(verdict.wrong)}", flush=True)
    print(f"{'fault':32} {'cases':>6} {'good':>6} {'bad':>6}  did not strike")
    for family, number in count.items():
        print(f"{family:32} {number:6} {number - bad[family]:6} {bad[family]:6}  {idle[family]}")
    total, wrong = count.total(), bad.total()
    print(f"{'all':32} {total:6} {total - wrong:6} {wrong:6}  {idle.total()}")
    print(f"{(time.monotonic() - begun_s) / max(1, total):.2f} s a case; seed {chosen.seed}")
    if wrong:
        print(f"the folders of the bad ones are below {server.folder}")
    return bool(wrong)
