"""Windows of a running job against cold launches, on this machine.

    python -m benchmarks.live points [--study chainer_mnist] [--ranks 4] [--runs 2] [--picture FILE]
    python -m benchmarks.live cost

``points`` measures 30 settings or more both ways, in random order, and compares: the rank
correlation of the medians and the bias of the windows. ``cost`` tells what a job pays for the
extension and the probe while no one switches its setting. Both want an idle machine.
``TUNE_STORAGE`` says where studies are kept; what is there is not measured again.
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
    part.add_argument("--study", default="chainer_mnist", choices=sorted(points.VALUES))
    part.add_argument("--ranks", type=int, default=4)
    part.add_argument("--runs", type=int, default=2, help="of each setting, both ways")
    part.add_argument("--picture", type=Path, help="a PNG of both times")
    part.set_defaults(run=points.main)
    part = parts.add_parser("cost")
    part.add_argument("--pairs", type=int, default=10)
    part.set_defaults(run=cost.main)
    options = parser.parse_args()
    return int(not options.run(options))


if __name__ == "__main__":
    sys.exit(main())
