"""Some faults, in turn: ``python -m campaigns.faults [--live] [--mpirun PATH] WORDS``.

With ``--two-hosts`` (as root) rank 0 is on the first of two hosts, where ``tune`` runs too, and
rank 1 on the other. Left out is what no agent can see (a daemon without the marker of its launch).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.faults import case
from tests.faults.bench import ONE_HOST
from tests.faults.rows import FAULTS, LIVE
from tests.hosts.several.bench import CHECKOUT, Bench
from tuner.launch import launchers
from tuner.model import Layout

TWO_HOSTS = Layout(2, ("h1", "h2"), (1, 1))


def main() -> int:
    """Run them; 1 if one came out wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpirun")
    parser.add_argument("--live", action="store_true", help="the faults of live jobs")
    parser.add_argument("--two-hosts", action="store_true", help="the ranks are on two hosts")
    parser.add_argument("words", nargs="*", default=[""])
    args = parser.parse_args()
    here = os.uname().nodename
    if args.two_hosts and here != TWO_HOSTS.hosts[0]:
        return on_a_bench(sys.argv[1:])
    layout = TWO_HOSTS if args.two_hosts else ONE_HOST
    launcher = launchers.find(args.mpirun, environ=os.environ)
    faults = LIVE if args.live else FAULTS
    chosen = [
        fault
        for fault in faults
        if any(word in fault.name for word in args.words)
        and not (args.two_hosts and "bare=True" in fault.act)
    ]
    bad = 0
    for fault in chosen:
        (report,) = case.run([fault], launcher, layout)
        bad += bool(report.problems)
        verdict = "BAD" if report.problems else "ok"
        print(f"{verdict:3} {report.text}; {report.launches} launches", flush=True)
    print(f"{len(chosen)} faults, {bad} bad")
    return bool(bad)


def on_a_bench(arguments: list[str]) -> int:
    """Run the campaign on the first of the hosts."""
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), len(TWO_HOSTS.hosts))
        argv = [sys.executable, "-m", "campaigns.faults", *arguments]
        env = {**os.environ, "TMPDIR": name, "PYTHONPATH": CHECKOUT[0]}
        try:
            options = {"check": False, "capture_output": False, "timeout": None}
            return bench.run(TWO_HOSTS.hosts[0], *argv, env=env, **options).returncode
        finally:
            bench.close()


if __name__ == "__main__":
    sys.exit(main())
