"""Run the campaign: ``python -m campaigns.every_k --seed 1 --share 0.1``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from campaigns.every_k.bench import started
from campaigns.every_k.campaign import clean, verdicts
from campaigns.every_k.cases import every, sample


def main() -> int:
    """Print a table: what failed, how many cases, good and bad; then the bad ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of all cases")
    parser.add_argument("--part", default="1/1", help="2/4: the second of four parts")
    parser.add_argument("--only", default="", help="families with this in their name")
    chosen = parser.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="every-k-", dir=memory))
    count, bad, idle = Counter[str](), Counter[str](), Counter[str]()
    begun = time.monotonic()
    with started(folder) as bench:
        whole = clean(bench)
        cases = sample(every(whole.counts, chosen.seed), chosen.share, chosen.seed)
        cases = [case for case in cases if chosen.only in case.family]
        print(f"a study without a fault does {whole.counts}")
        for verdict in verdicts(bench, cases[part - 1 :: parts], whole):
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
    print(f"{(time.monotonic() - begun) / max(1, total):.2f} s a case; seed {chosen.seed}")
    if wrong:
        print(f"the folders of the bad ones are below {folder}")
        return 1
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
