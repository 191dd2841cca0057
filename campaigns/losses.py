"""Hosts, agents, daemons, ranks, launchers and ``tune`` itself are lost again and again.

``python -m campaigns.losses --losses 200 --seed 1`` (as root) prints one JSON line. A study runs
over two hosts of the tests' bench. At a random moment of a launch something of it is killed, or a
link goes down. Then nothing of that launch may be left on any host, and what was measured must be
of a launch that ran to its end. A study that has ended is begun again, with the same command.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.hosts.several.bench import Bench
from tests.hosts.several.study_on_hosts import AGENT, StudyOnHosts
from tuner.model import Finished

#: What gets a signal: on which host, and a word of its command; the link of a host goes down.
LOSSES = {
    "tune": ("h1", "--hosts", signal.SIGKILL),
    "mpirun": ("h1", "prterun", signal.SIGKILL),
    "an ssh of mpirun": ("h1", "ssh h3", signal.SIGKILL),
    "a session of sshd": ("h3", "sshd: root@", signal.SIGKILL),
    "a rank": ("h2", "program.py", signal.SIGKILL),
    "the other rank": ("h3", "program.py", signal.SIGKILL),
    "the daemon of the MPI": ("h3", "prted", signal.SIGKILL),
    "an agent": ("h2", AGENT, signal.SIGKILL),
    "an agent that is stopped": ("h3", AGENT, signal.SIGSTOP),
    "a link": ("h3", "", 0),
}

#: A launch takes this long, s.
LAUNCH_S = 1.0
#: A link is down for this long, s: longer than a silence that the agents bear.
DOWN_S = 5.0
#: All that was left of a launch is to be gone sooner, s; of a lost link or a stopped agent the
#: silence comes on top.
GONE_S = 2.0
PATIENCE_S = 60.0

#: Options that make launches without an end.
ENDLESS = (
    *("--hosts", "h2:1,h3:1", "--no-confirm", "--sampler", "random", "--trials", "100000"),
    *("--knob", "omp_threads=1..10000", "--stall-limit", "20"),
    "--quiet",  # what it would print is read by nobody
)


def strike(study: StudyOnHosts, what: str) -> float:
    """Lose it; the seconds until nothing of the launch was left."""
    host, word, number = LOSSES[what]
    of_launch = study.of_launch()
    began_s = time.monotonic()
    if word:
        study.send(number, host, word)
    else:
        study.bench.link(host, "down")
    try:
        while left := of_launch & study.of_launch():
            if time.monotonic() - began_s > PATIENCE_S:
                raise SystemExit(f"{what}: {left} go on")
            time.sleep(0.01)
        return time.monotonic() - began_s
    finally:
        if not word:
            time.sleep(max(0.0, began_s + DOWN_S - time.monotonic()))
            study.bench.link(host, "up")


def wrong_figures(study: StudyOnHosts) -> list[str]:
    """Launches that count, but did not run to their end on both hosts."""
    wrong = []
    for record in study.records():
        ending = record.outcome.ending
        if isinstance(ending, Finished):
            said = Path(record.folder, "output.log").read_text()
            if said.count("ranks 2") != 2 or ending.elapsed_s < LAUNCH_S:
                wrong.append(f"launch {record.number}: {ending}, {said[-200:]!r}")
    return wrong


def main() -> int:
    """Lose things until it was often enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    gone_s: dict[str, list[float]] = {what: [] for what in LOSSES}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), 3)
        study = StudyOnHosts(bench, Path(name), *ENDLESS, seconds=LAUNCH_S)
        while sum(map(len, gone_s.values())) < chosen.losses:
            deadline_s = time.monotonic() + PATIENCE_S
            while not study.is_running():
                if study.process.poll() is not None:  # it was lost too often in a row, or killed
                    study.process.communicate()
                    study.start()
                if time.monotonic() > deadline_s:
                    raise SystemExit(f"no launch begins: {json.dumps(gone_s)}")
                time.sleep(0.02)
            time.sleep(1.3 * rng.random() * LAUNCH_S)  # some launches end before
            what = rng.choice(list(LOSSES))
            try:
                gone_s[what].append(round(strike(study, what), 2))
                print(f"{what}: {gone_s[what][-1]} s", file=sys.stderr, flush=True)
            except AssertionError:  # there was none: the launch had ended
                continue
        found = bench.processes("h1").items()
        for pid in [pid for pid, argv in found if "--hosts" in argv]:
            os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + PATIENCE_S
        while any(bench.processes(host) for host in bench.names) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        wrong += [f"left on {host}" for host in bench.names if bench.processes(host)]
        wrong += wrong_figures(study)
        kinds = Counter(
            getattr(record.outcome.ending, "kind", "finished") for record in study.records()
        )
        bench.close()
    late = {what: [each for each in times if each > GONE_S] for what, times in gone_s.items()}
    print(
        json.dumps(
            {
                "losses": {what: len(times) for what, times in gone_s.items()},
                "longest_s": {what: max(times, default=0.0) for what, times in gone_s.items()},
                "late": {what: times for what, times in late.items() if times},
                "launches": kinds,
                "wrong": wrong,
            }
        )
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
