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
from tuner.model import Purpose
from tuner.store import Store, resolve_url

pytestmark = [pytest.mark.system, pytest.mark.slow]

RANKS, WHO = (0, 1), ("itself", "child")

#: Rank 0 writes Chainer's log; an iteration takes as much CPU time as the step says.
LOGS = """
import json, os, sys, time
from mpi4py import MPI
world, out, step = MPI.COMM_WORLD, sys.argv[1], int(sys.argv[2])
log, begun_s = [], time.monotonic()
while len(log) < 25:
    end_s = time.process_time() + 0.02 * step
    while time.process_time() < end_s:
        pass
    world.allreduce(1)
    log.append({"iteration": len(log) + 1, "elapsed_time": time.monotonic() - begun_s})
    if world.rank == 0:
        with open(out + "/draft", "w") as file:
            json.dump(log, file)
        os.replace(out + "/draft", out + "/log")
"""


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


def test_a_study_over_hosts_that_share_no_folder_is_compared_side_by_side(
    bench: Bench, folder: Path
) -> None:
    (folder / "program.py").write_text(LOGS)
    words = (
        str(Path(sys.executable).parent / "tune"),
        *("--live", "off", "--trials", "2", "--warm-ups", "0", "--fix", "omp_threads=1"),
        *("--knob", "step=1,4", "--baseline", "step=4", "--hosts", "h2:1,h3:1"),
        *("--storage", str(folder / "study.db"), "--name", "study"),
        *("--run-dir", f"/tmp/{folder.name}"),
        *("--", sys.executable, str(folder / "program.py"), "{out}", "{step}"),
    )
    process = bench.start("h1", *words, env={**os.environ, "TUNE_DISTURBED": "count"})
    printed = "".join(process.communicate(timeout=200))
    assert process.returncode == 0, printed
    assert "faster than your defaults" in printed, printed
    with Store.open(resolve_url(str(folder / "study.db"), {}), create=False) as store:
        compared = [r for r in store.launches("study") if r.purpose is Purpose.CONFIRM]
    assert len(compared) >= 2
    for record in compared:
        assert record.outcome.side_by_side is not None
        assert record.outcome.side_by_side.slices
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
