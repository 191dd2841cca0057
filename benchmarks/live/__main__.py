"""Windows of a running job against cold launches, on this machine.

    python -m benchmarks.live points [--study chainer_mnist] [--runs 3] [--picture FILE]
    python -m benchmarks.live cost

``points`` measures some ten settings of the MNIST and of the image trainer both ways, in random
order, and compares the medians: their correlation, and the bias of the windows. ``cost`` tells what
a job pays for the extension and the probe while no one switches its setting. Both want an idle
machine. ``TUNE_STORAGE`` says where studies are kept; what is there is not measured again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.live import cost, points


def main() -> int:
    """Measure and print; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("points")
    part.add_argument("--study", action="append", choices=sorted(points.VALUES), help="or both")
    part.add_argument("--runs", type=int, default=3, help="of each setting, both ways")
    part.add_argument("--picture", type=Path, help="a PNG of both times, FILE-STUDY.png")
    part.set_defaults(run=points.main)
    part = parts.add_parser("cost")
    part.add_argument("--pairs", type=int, default=10)
    part.set_defaults(run=cost.main)
    options = parser.parse_args()
    return int(not options.run(options))


if __name__ == "__main__":
    sys.exit(main())
