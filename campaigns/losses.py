"""Hosts, agents, daemons, ranks, launchers and ``tune`` itself are lost again and again.

``python -m campaigns.losses --losses 200 --seed 1`` (as root) prints one JSON line. A study runs
over two hosts of the tests' bench. At a random moment of a launch something of it is killed, or a
link goes down. Then nothing of that launch may be left on any host, and what was measured must be
of a launch that ran to its end. A study that has ended is begun again, with the same command.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.hosts.several.bench import Bench
from tests.hosts.several.study_on_hosts import LOSSES, StudyOnHosts
from tests.marked import eventually
from tuner.model import Finished

#: A launch takes this long, s.
LAUNCH_S = 1.0
#: A link is down for this long, s: longer than a silence that the agents bear.
DOWN_S = 5.0

#: Options that make launches without an end.
ENDLESS = (
    *("--hosts", "h2:1,h3:1", "--no-confirm", "--sampler", "random", "--trials", "100000"),
    *("--knob", "omp_threads=1..10000", "--stall-limit", "20"),
    "--quiet",  # what it would print is read by nobody
)


def strike(study: StudyOnHosts, loss: str) -> None:
    """Lose it, and wait until nothing of the launch is left."""
    of_launch = study.of_launch()
    try:
        if loss in LOSSES:
            host, word, number = LOSSES[loss]
            study.send(number, host, word)
        else:
            study.bench.link("h3", "down")
            time.sleep(DOWN_S)
        eventually(lambda: not of_launch & study.of_launch())
    finally:
        study.bench.link("h3", "up")


def is_running(study: StudyOnHosts) -> bool:
    """Return whether a launch runs; a study that was lost too often in a row is begun again."""
    if study.process.poll() is not None:
        study.process.communicate()
        study.start()
    return study.is_running()


def wrong_figures(study: StudyOnHosts) -> list[str]:
    """Return the launches that count, but did not run to their end on both hosts."""
    wrong = []
    for record in study.records():
        ending = record.outcome.ending
        if isinstance(ending, Finished):
            printed = Path(record.folder, "output.log").read_text()
            if printed.count("ranks 2") != 2 or ending.elapsed_s < LAUNCH_S:
                wrong.append(f"launch {record.number}: {ending}, {printed[-200:]!r}")
    return wrong


def main() -> int:
    """Lose things until it was often enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, losses = random.Random(args.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), 3)
        study = StudyOnHosts(bench, Path(name), *ENDLESS, seconds=LAUNCH_S)
        while losses.total() < args.losses:
            eventually(lambda: is_running(study))
            time.sleep(1.3 * rng.random() * LAUNCH_S)  # some launches end before
            loss = rng.choice([*LOSSES, "a link"])
            with suppress(LookupError):  # there was none: the launch had ended
                strike(study, loss)
                losses[loss] += 1
        with suppress(LookupError):  # it was lost itself
            study.kill_tune()
        eventually(lambda: not any(map(bench.processes, bench.names)))
        wrong = wrong_figures(study)
        bench.close()
    print(json.dumps({"losses": losses, "wrong": wrong}))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
