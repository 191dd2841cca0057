"""Every planted bottleneck, in turn: ``python -m tests.bottlenecks [--busy] [WORDS]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.bottlenecks.planted import PLANTED, SLOW_LINK, Planted, call_in_namespace, compiled


def main() -> int:
    """Run them; 1 if one was called something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", action="store_true", help="the host may be busy with others")
    parser.add_argument("words", nargs="*", default=[""])
    args = parser.parse_args()
    wrong = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        for planted in PLANTED:
            if not any(word in planted.name for word in args.words):
                continue
            if lacks := planted.lacks():
                print(f"skip {planted.name}: {lacks}")
                skipped += 1
            elif planted.slow_link and SLOW_LINK not in os.environ:
                again = [sys.executable, "-m", "tests.bottlenecks", planted.name]
                ran = call_in_namespace([*again, *["--busy"] * args.busy])
                print(ran.stdout.rpartition("\n0 wrong")[0] or ran.stdout + ran.stderr)
                wrong += ran.returncode != 0
            else:
                wrong += show(planted, Path(folder), None, busy=args.busy)
                if planted.c and program is not None:
                    wrong += show(planted, Path(folder), program, busy=args.busy)
    print(f"{wrong} wrong, {skipped} skipped")
    return bool(wrong)


def show(planted: Planted, folder: Path, program: Path | None, *, busy: bool) -> bool:
    """Run it, with Python or without; whether it was called something else."""
    kind = "c" if program else "python"
    outcome, found = planted.launch(folder / f"{planted.name}-{kind}", program)
    right = planted.is_named(found, busy=busy)
    print(
        f"{'ok' if right else 'BAD':4} {planted.name:24} {kind:7} {found.suspect.share:4.0%}"
        f" {found.cause} {found.suspect.subject} ({found.certainty}; {outcome.wall_s:.1f} s)",
        flush=True,
    )
    for each in () if right else (found.suspect, *found.others):
        print(f"       {each.share:4.0%} {each.cause} {each.subject}")
        print("".join(f"              {line}\n" for line in each.evidence), end="")
    return not right


if __name__ == "__main__":
    sys.exit(main())
