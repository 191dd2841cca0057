"""Every planted bottleneck, in turn: ``python -m tests.bottlenecks [-v] [--busy] [WORDS]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.bottlenecks import bench
from tests.bottlenecks.around import INSIDE, call_in_namespace
from tests.bottlenecks.rows import PLANTED, Planted


def main() -> int:
    """Run them; 1 where one was called something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="with the evidence")
    parser.add_argument("--busy", action="store_true", help="the host may be busy with others")
    parser.add_argument("words", nargs="*", default=[""])
    args = parser.parse_args()
    wrong = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        program = bench.compiled(Path(folder))
        for planted in PLANTED:
            if not any(word in planted.name for word in args.words):
                continue
            lacks = planted.around.lacks()
            if lacks:
                print(f"skip {planted.name}: {lacks}")
                skipped += 1
            elif planted.around.namespace and INSIDE not in os.environ:
                again = [sys.executable, "-m", "tests.bottlenecks", planted.name]
                again += ["-v"] * args.verbose + ["--busy"] * args.busy
                ran = call_in_namespace(again)
                print(ran.stdout.rpartition("\n0 wrong")[0] or ran.stdout + ran.stderr)
                wrong += ran.returncode != 0
            else:
                wrong += show(planted, Path(folder), program, args)
    print(f"{wrong} wrong, {skipped} skipped")
    return bool(wrong)


def show(planted: Planted, folder: Path, program: Path | None, args: argparse.Namespace) -> int:
    """Run it with Python and without; how often it was called something else."""
    wrong = 0
    for kind, command in (("python", planted.python), ("c", planted.c)):
        if not command or (kind == "c" and program is None):
            continue
        outcome, found = bench.launch(
            planted, folder / f"{planted.name}-{kind}", program if kind == "c" else None
        )
        right = bench.is_named(planted, found, busy=args.busy)
        wrong += not right
        verdict = "ok" if right else "BAD"
        told = f"{found.cause} {found.found.subject}".strip()
        print(
            f"{verdict:4} {planted.name:24} {kind:7} {found.found.share:4.0%} {told}"
            f" ({found.certainty}; {outcome.wall_s:.1f} s)",
            flush=True,
        )
        if args.verbose or not right:
            for each in (found.found, *found.others):
                print(f"       {each.share:4.0%} {each.cause} {each.subject}")
                for line in each.evidence:
                    print(f"              {line}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
