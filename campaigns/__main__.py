"""Run the campaigns: ``python -m campaigns [NAME [OPTION …]]``; without a name all of them.

The options are those of the campaign: ``python -m campaigns soak --trials 100 --seed 7``.
"""

from __future__ import annotations

import subprocess
import sys

CAMPAIGNS: dict[str, tuple[str, ...]] = {
    "faults": (),
    "races": ("--rounds", "200"),
    "phases": ("--all",),
    "exports_inert": ("--count", "10000"),
    "soak": ("--trials", "1000"),
    "losses": ("--losses", "200"),
    "every_k": (),
    "verdicts": ("--neighbour",),
}


def main(arguments: list[str]) -> int:
    """Run the named campaign, or all; 1 if anything was wrong."""
    name, *options = [arguments[0].replace("-", "_"), *arguments[1:]] if arguments else [""]
    if name and name not in CAMPAIGNS:
        print(f"there is no campaign {name!r}, only {', '.join(CAMPAIGNS)}", file=sys.stderr)
        return 2
    wrong = []
    for each in [name] if name else CAMPAIGNS:
        print(f"== {each}", flush=True)
        # A later option wins, so the campaign's own options may change how long it takes.
        argv = [sys.executable, "-m", f"campaigns.{each}", *CAMPAIGNS[each], *options]
        if subprocess.run(argv, check=False).returncode:
            wrong.append(each)
    if wrong:
        print(f"wrong: {', '.join(wrong)}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
