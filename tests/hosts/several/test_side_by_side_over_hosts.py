"""Two launches side by side over two hosts: they take turns everywhere, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.hosts.several.bench import CHECKOUT, Bench
from tests.hosts.several.test_studies import AGENT
from tests.marked import eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

RANKS, WHO = (0, 1), ("itself", "child")


def start(
    bench: Bench, folder: Path, seconds: float, hosts: tuple[str, str] = ("h2", "h3")
) -> subprocess.Popen[str]:
    words = ("tests.hosts.several.pair", str(folder), str(seconds), *hosts)
    return bench.start(
        "h1", sys.executable, "-m", *words, env={**os.environ, "PYTHONPATH": CHECKOUT[0]}
    )


def beats(folder: Path, side: int, rank: int, who: str) -> list[float]:
    path = folder / f"beats-{side}-{rank}-{who}"
    return [float(line) for line in path.read_text().split()] if path.exists() else []


def states(bench: Bench, host: str) -> list[str]:
    """The state of each rank on a host."""
    found = bench.processes(host).items()
    ranks = [pid for pid, argv in found if any("program.py" in word for word in argv)]
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in ranks]


def are_empty(bench: Bench) -> bool:
    return not any(bench.processes(host) for host in bench.names)


@pytest.mark.parametrize("hosts", [("h2", "h3"), ("h1", "h3")], ids=["others", "this one too"])
def test_at_any_moment_only_one_of_them_runs_on_any_host(
    bench: Bench, folder: Path, hosts: tuple[str, str]
) -> None:
    process = start(bench, folder, 0.8, hosts)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    launches = [json.loads(line) for line in output.splitlines()]
    for side, launch in enumerate(launches):
        assert launch["ending"].startswith("Finished"), launch
        assert launch["ranks"] == [0, 1], "each launch has its own reports"
        assert len(launch["pauses"]) >= 2
        # While the other one may run, from the end of a pause of it to the begin of its next.
        runs = [(end, begin) for (_, end), (begin, _) in pairwise(launches[1 - side]["pauses"])]
        for rank in RANKS:
            for who in WHO:
                moments = beats(folder, side, rank, who)
                assert len(moments) > 20
                in_vain = [at for at in moments for begin, end in runs if begin < at < end]
                assert in_vain == [], "it ran while the other one did"
    eventually(lambda: are_empty(bench))


@pytest.mark.parametrize("killed", ["tune", "an agent", "the supervisors"])
def test_whatever_is_killed_nothing_is_left_stopped_or_alive(
    bench: Bench, folder: Path, killed: str
) -> None:
    process = start(bench, folder, 100)
    # Both are there on both hosts, and one of them is stopped.
    eventually(lambda: all(sorted(states(bench, host))[1:] == ["T"] for host in ("h2", "h3")))
    host, word = {
        "tune": ("h1", "tests.hosts.several.pair"),
        "an agent": ("h3", AGENT),
        "the supervisors": ("h1", "tuner/hosts/supervisor"),
    }[killed]
    pids = [pid for pid, argv in bench.processes(host).items() if any(word in a for a in argv)]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    output, errors = process.communicate(timeout=60)
    assert killed == "tune" or output.count("Failed") == 2, output + errors
    eventually(lambda: are_empty(bench))
