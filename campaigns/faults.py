"""Some faults, in turn: ``python -m campaigns.faults [--live] [--mpirun PATH] WORDS``."""

from __future__ import annotations

import argparse
import os
import sys

from tests.faults import case
from tests.faults.rows import FAULTS, LIVE
from tuner.launch.launchers import discovery


def main() -> int:
    """Run the faults whose names have one of the words; 1 if one came out wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpirun")
    parser.add_argument("--live", action="store_true", help="the faults of live jobs")
    parser.add_argument("words", nargs="*", default=[""])
    args = parser.parse_args()
    launcher = discovery.find(args.mpirun, environ=os.environ)
    faults = [
        fault
        for fault in (LIVE if args.live else FAULTS)
        if any(word in fault.name for word in args.words)
    ]
    bad = 0
    for fault in faults:
        (report,) = case.run([fault], launcher)
        bad += bool(report.problems)
        verdict = "BAD" if report.problems else "ok"
        print(f"{verdict:3} {report.text}; {report.launches} launches", flush=True)
    print(f"{len(faults)} faults, {bad} bad")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
