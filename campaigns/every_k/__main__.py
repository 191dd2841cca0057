"""Run the campaign: ``python -m campaigns.every_k --seed 1 --share 0.1``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from campaigns.every_k import forks, model
from campaigns.every_k.cases import Case, every, family, sample

HERE = Path(__file__).parent
SHIM = "every-k-shim.so"


def preloaded(folder: Path) -> int:
    """Build the shim, and run this campaign with it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        sys.exit("there is no C compiler")
    shim = folder / SHIM
    options = ("-O1", "-shared", "-fPIC", "-o", shim, HERE / "shim.c", "-ldl")
    subprocess.run([compiler, *options], check=True)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TUNE_", "OMP_"))},
        "LD_PRELOAD": str(shim),
        "OPENBLAS_NUM_THREADS": "1",  # a fork has one thread
        "COLUMNS": "100",
    }
    argv = [sys.executable, "-m", "campaigns.every_k", *sys.argv[1:]]
    return subprocess.run(argv, env=environment, cwd=HERE.parent.parent, check=False).returncode


def play(folder: Path, case: Case, whole: Sequence[model.Kept]) -> tuple[bool, list[str]]:
    """Run a case and recover: whether its fault struck, and all that is wrong."""
    wrong: list[str] = []
    must: set[float] = set()
    struck = False
    for fault in (*case, None):
        before = model.diary(folder)
        end = forks.run(folder, fault)
        is_kill = fault is not None and fault.error == 0
        wrong += model.stated(folder, end, killed=is_kill)
        now = model.diary(folder)
        must |= {elapsed_s for _, elapsed_s in now.reported} | model.journaled(folder)
        if fault is None or not (is_kill or fault.lasts):
            # One fault hits the launch's own record or the database, never both.
            must |= set(now.ended) - set(before.ended)
        if fault is not None:
            struck |= end.code != 0 or fault.at <= end.counts.get(fault.kind, 0)
    if end.code != 0:
        return struck, [*wrong, f"no recovery: {end.said.strip()[-300:]}"]
    return struck, wrong + list(model.lasting(folder, must, whole))


def main() -> int:
    """Print a table: what failed, how many cases, good and bad; then the bad ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of all cases")
    parser.add_argument("--least", type=int, default=1, help="cases of each family")
    parser.add_argument("--only", default="", help="families with this in their name")
    chosen = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="every-k-", dir=memory))
    if SHIM not in os.environ.get("LD_PRELOAD", ""):
        code = preloaded(folder)
        shutil.rmtree(folder)
        return code
    count, bad, idle = Counter[str](), Counter[str](), Counter[str]()
    begun = time.monotonic()
    forks.prepare(folder)
    whole = forks.run(folder / "clean")
    assert whole.code == 0, whole.said
    assert all(whole.counts.values()), f"each kind is seen: {whole.counts}"
    kept = model.launches(folder / "clean" / "work" / "tune.db")
    clean = [
        *model.stated(folder / "clean", whole, killed=False),
        *model.lasting(folder / "clean", set(model.diary(folder / "clean").ended), kept),
    ]
    assert not clean, clean
    print(f"a study without a fault does {whole.counts}")
    cases = sample(every(whole.counts, chosen.seed), chosen.share, chosen.seed, chosen.least)
    cases = [case for case in cases if chosen.only in family(case)]
    for number, case in enumerate(cases):
        own = folder / f"case-{number}"
        struck, wrong = play(own, case, kept)
        count[family(case)] += 1
        idle[family(case)] += not struck
        if wrong:
            bad[family(case)] += 1
            said = " then ".join(f"{fault}, {fault.at}" for fault in case)
            print(f"BAD {said}: {'; '.join(wrong)}", flush=True)
        else:
            shutil.rmtree(own)
    print(f"{'fault':32} {'cases':>6} {'good':>6} {'bad':>6}  did not strike")
    for name, number in [*count.items(), ("all", count.total())]:
        wrongs, idles = (c.total() if name == "all" else c[name] for c in (bad, idle))
        print(f"{name:32} {number:6} {number - wrongs:6} {wrongs:6}  {idles}")
    print(f"{(time.monotonic() - begun) / max(1, count.total()):.2f} s a case; seed {chosen.seed}")
    if bad:
        print(f"the folders of the bad ones are below {folder}")
        return 1
    shutil.rmtree(folder)
    return int(idle.total() == count.total())


if __name__ == "__main__":
    sys.exit(main())
