"""Run the campaign: ``python -m campaigns.every_k --seed 1 --share 0.1``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from campaigns.every_k import forks, model
from campaigns.every_k.cases import Case, drawn

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
    """Print the bad cases, then a table: what failed, how many cases, good and bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of all cases")
    parser.add_argument("--least", type=int, default=1, help="cases of each family")
    chosen = parser.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="every-k-", dir=memory))
    if SHIM not in os.environ.get("LD_PRELOAD", ""):
        code = preloaded(folder)
        shutil.rmtree(folder)
        return code
    forks.prepare(folder)
    clean = folder / "clean"
    whole = forks.run(clean)
    assert whole.code == 0, whole.said
    assert all(whole.counts.values()), f"each kind is seen: {whole.counts}"
    kept = model.launches(clean / "work" / "tune.db")
    mistakes = [
        *model.stated(clean, whole, killed=False),
        *model.lasting(clean, set(model.diary(clean).ended), kept),
    ]
    assert not mistakes, mistakes
    print(f"a study without a fault does {whole.counts}")
    cases, bad, idle = Counter[str](), Counter[str](), Counter[str]()
    for number, case in enumerate(drawn(whole.counts, chosen.seed, chosen.share, chosen.least)):
        own = folder / f"case-{number}"
        struck, wrong = play(own, case, kept)
        family = str(case[0]) if len(case) == 1 else "a second fault in recovery"
        for name in (family, "all"):
            cases[name] += 1
            idle[name] += not struck
            bad[name] += bool(wrong)
        if wrong:
            said = " then ".join(f"{fault}, {fault.at}" for fault in case)
            print(f"BAD {said}: {'; '.join(wrong)}; see {own}", flush=True)
        else:
            shutil.rmtree(own)
    print(f"{'fault':32} {'cases':>6} {'good':>6} {'bad':>6}  did not strike")
    for name, number in sorted(cases.items(), key=lambda each: each[1]):
        print(f"{name:32} {number:6} {number - bad[name]:6} {bad[name]:6}  {idle[name]}")
    if not bad["all"]:
        shutil.rmtree(folder)
    return int(bad["all"] > 0 or idle["all"] == cases["all"])


if __name__ == "__main__":
    sys.exit(main())
