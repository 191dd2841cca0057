"""Studies over two hosts: what is measured and seen, and that nothing is left, whatever is lost."""

from __future__ import annotations

import re
import signal
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosts.several.bench import Bench
from tests.hosts.several.study_on_hosts import AGENT, LOGGING, LOSSES, SHORT, StudyOnHosts
from tests.marked import eventually
from tuner.model import Failed, FailureKind, Finished, Stopped

pytestmark = [pytest.mark.system, pytest.mark.slow]

Start = Callable[..., StudyOnHosts]

#: Each rank on a host of its own, none on that of ``tune``.
OTHERS = (*SHORT, "--hosts", "h2:1,h3:1")


def test_kill_9_of_tune_empties_all_hosts_and_the_same_command_goes_on(study: Start) -> None:
    tune = study(*OTHERS, seconds=100)
    eventually(tune.is_running)
    tune.send(signal.SIGSTOP, "h3", AGENT)  # does not keep its host from the same study
    tune.kill_tune()
    eventually(lambda: not tune.bench.processes("h2"))
    tune.let_it_run(0.3)
    tune.start()
    tune.end()
    finished = [r for r in tune.records() if isinstance(r.outcome.ending, Finished)]
    assert len(finished) >= 2  # one more may leave out a knob
    for record in finished:
        assert "ranks 2" in Path(record.folder, "output.log").read_text()


#: The kind of the failure after these losses; after any other a host is lost.
KINDS = {"mpirun": FailureKind.INTERRUPTED, "a rank": FailureKind.CRASHED}


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "tune"])
def test_whatever_is_killed_nothing_is_left_and_the_study_goes_on(study: Start, loss: str) -> None:
    host, word, number = LOSSES[loss]
    kind = KINDS.get(loss, FailureKind.LOST_HOST)
    tune = study(*OTHERS, seconds=3)
    eventually(tune.is_running)
    tune.let_it_run(0.3)
    of_launch = tune.of_launch()
    tune.send(number, host, word)
    eventually(lambda: not of_launch & tune.of_launch())
    tune.end()
    endings = [record.outcome.ending for record in tune.records()]
    (failed,) = [ending for ending in endings if isinstance(ending, Failed)]
    assert failed.kind == kind, failed
    if kind is FailureKind.LOST_HOST:
        lost = "h3" if word == "ssh h3" else host
        assert re.search(rf"the host {lost} is lost: |remote daemon: {lost}$", failed.reason)
    assert len(endings) - 1 >= 2 - (kind is FailureKind.CRASHED)


def test_a_host_without_a_link_is_named_and_the_study_goes_on(bench: Bench, study: Start) -> None:
    tune = study(*OTHERS, seconds=3)
    eventually(tune.is_running)
    tune.let_it_run(0.3)
    bench.link("h3", "down")
    try:
        assert re.search(r"error: .*\bh3\b", tune.end(3))
        eventually(lambda: not tune.of_launch())  # the one that is cut off has swept itself
    finally:
        bench.link("h3", "up")
    tune.start()
    tune.end()
    endings = [record.outcome.ending for record in tune.records()]
    (lost,) = [ending for ending in endings if isinstance(ending, Failed)]
    assert lost.kind is FailureKind.LOST_HOST and "h3" in lost.reason


@pytest.mark.parametrize(
    ("source", "loss"), [("--hosts", "its processes"), ("--hosts-from", "its link")]
)
def test_another_host_takes_the_place_of_a_lost_one(
    bench: Bench, study: Start, folder: Path, source: str, loss: str
) -> None:
    there = folder / "there"
    there.write_text("h2 1\nh3 1\n")
    hosts = "h2:1,h3:1,h1:1" if source == "--hosts" else f"cat '{there}'"
    tune = study(*SHORT, source, hosts, "-n", "2", seconds=3)
    eventually(tune.is_running)
    tune.let_it_run(0.3)
    there.write_text("h2 1\nh1 1\n")
    if loss == "its link":
        bench.link("h3", "down")
    else:
        tune.send(signal.SIGKILL, "h3", "")
    try:
        printed = tune.end()
    finally:
        bench.link("h3", "up")
    replaced = loss == "its link"  # else h3 is there again
    assert ("h1 takes the place of h3" in printed) == replaced, printed
    lost, *others = tune.records()
    assert isinstance(lost.outcome.ending, Failed)
    assert lost.outcome.ending.kind is FailureKind.LOST_HOST
    assert len(others) >= 2
    for record in others:
        assert isinstance(record.outcome.ending, Finished | Stopped), record.outcome.ending
        assert ("h2:1,h1:1" in record.argv) == replaced
    tune.start()
    tune.end()  # it finds the study finished, whichever hosts there are now


def test_each_number_of_ranks_runs_on_each_host(study: Start) -> None:
    few = ("--warm-ups", "0", "--no-confirm", "--fix", "omp_threads=1", "--fix", "bind_to=none")
    tune = study(*few, "-n", "1,2", "--hosts", "h2:2,h3:2", seconds=0.1)
    tune.end()
    outputs = [Path(r.folder, "output.log").read_text() for r in tune.records()]
    assert {n for text in outputs for n in re.findall(r"ranks (\d)", text)} == {"2", "4"}, outputs
    assert {"h2:1,h3:1", "h2:2,h3:2"} <= {word for r in tune.records() for word in r.argv}


def test_hosts_that_cannot_be_used_are_named_before_anything_starts(study: Start) -> None:
    tune = study(*SHORT, "--hosts", "h2:1,nohost:1")
    assert "no answer from nohost: ssh: Could not resolve hostname nohost" in tune.end(3)
    assert not (tune.folder / "study.db").exists()


def test_a_host_is_measured_by_one_study_at_a_time(bench: Bench, study: Start) -> None:
    tune = study(*SHORT, "--hosts", "h3:1", seconds=100)
    eventually(lambda: ["sleep", "1000", ""] in bench.processes("h3").values())
    other = [*tune.words[:1], "--storage", str(tune.folder / "other.db"), *tune.words[3:]]
    done = bench.run("h2", *other, check=False)
    assert done.returncode == 5
    assert re.search(r"h3 is measuring for process \d+ \(study study\)", done.stderr)
    tune.kill_tune()


#: Ranks that compute, exchange and log; with "hang" the last one stops doing so after a while.
TRAINER = f"""{LOGGING}
import numpy as np
matrix = np.ones((300, 300))
for iteration in range(1, 41):
    if "hang" in sys.argv[2:] and iteration == 10 and world.rank == world.size - 1:
        time.sleep(1000)
    end_s = time.monotonic() + 0.05
    while time.monotonic() < end_s:
        matrix @ matrix
    world.allreduce(1)
    ended()
"""


def private_folders(bench: Bench) -> list[str]:
    names = " ".join(bench.run(host, "ls", "/dev/shm").stdout for host in bench.names).split()
    return [name for name in names if name.startswith("tune-")]


def test_ranks_of_all_hosts_are_seen_from_outside_and_inside(bench: Bench, study: Start) -> None:
    tune = study(*SHORT, "--hosts", "h1:1,h3:1", "--", "{out}", program=TRAINER)
    tune.end()
    records = tune.records()
    assert len(records) == 2
    for record in records:
        outcome, telemetry = record.outcome, tune.telemetry(record.number)
        assert isinstance(outcome.ending, Finished), outcome.ending
        ranks = outcome.observation.ranks
        assert [rank.rank for rank in ranks] == [0, 1]
        assert all(rank.world_size == 2 and rank.threads and rank.pools for rank in ranks)
        assert telemetry is not None
        tracks = {(track.host, track.rank) for track in telemetry.tracks}
        assert tracks == {("h1", None), ("h3", None), ("h1", 0), ("h3", 1)}
        assert {phase.rank for phase in telemetry.phases} == {0, 1}
    assert private_folders(bench) == []


def test_a_hang_is_named_with_its_host_and_nothing_is_left(bench: Bench, study: Start) -> None:
    words = (*SHORT, "--hosts", "h1:1,h3:1", "--stall-limit", "3", "--", "{out}", "hang")
    tune = study(*words, program=TRAINER)
    eventually(lambda: len(tune.records()) == 1)
    ending = tune.records()[0].outcome.ending
    assert isinstance(ending, Failed) and ending.kind is FailureKind.STALLED
    assert "rank 1 (on h3) is idle, the others wait" in ending.reason
    stacks = sorted(path.name for path in Path(tune.records()[0].folder, "stacks").iterdir())
    assert stacks == ["rank-0.txt", "rank-1.txt"]
    eventually(lambda: len(private_folders(bench)) == 2)
    tune.kill_tune()
    tune.process.communicate(timeout=60)
    eventually(lambda: not any(map(bench.processes, bench.names)))
    tune.words[2], tune.words[-1] = str(tune.folder / "other.db"), "runs"
    tune.start()
    tune.end()
    assert private_folders(bench) == []


#: An iteration takes as long as the step says, on both ranks.
LIVE = f"""{LOGGING}
from tuner import live
session, step = live.session(), [int(sys.argv[2])]
session.on("step", step.append, read=lambda: step[-1])
while len(log) < 25 or session.more():
    time.sleep(0.02 * step[-1])
    steps = world.allgather(step[-1])
    assert len(set(steps)) == 1, steps
    ended()
    session.step()
"""


@pytest.mark.parametrize("is_lost", [False, True], ids=["to its end", "with an agent lost"])
def test_a_live_job_is_switched_on_all_hosts_at_once_and_another_takes_the_place_of_a_lost_one(
    study: Start, folder: Path, is_lost: bool
) -> None:
    words = ("--live", "on", "--no-confirm", "--trials", "3", "--fix", "omp_threads=1")
    knob = ("--knob", "step=1,2,3", "--baseline", "step=3", "--hosts", "h2:1,h3:1")
    runs = ("--run-dir", f"/tmp/{folder.name}", "--", "{out}", "{step}")
    tune = study(*words, *knob, *runs, program=LIVE)
    if is_lost:
        eventually(lambda: any(record.job is not None for record in tune.records()))
        tune.send(signal.SIGKILL, "h3", AGENT)
    printed = tune.end()
    kinds = {e.kind for r in tune.records() if isinstance(e := r.outcome.ending, Failed)}
    assert kinds <= ({FailureKind.LOST_HOST} if is_lost else set()), printed
    windows = [record for record in tune.records() if record.job is not None]
    jobs = {record.job for record in windows}
    assert len(jobs) > 1 if is_lost else len(windows) > len(jobs) > 0, printed
    for record in windows:
        if isinstance(record.outcome.ending, Finished | Stopped):
            assert record.outcome.window is not None
            assert record.outcome.window.pace_s >= 0.02 * int(record.setting.as_dict()["step"])
            ranks = record.outcome.observation.ranks
            assert [(rank.rank, rank.reported) for rank in ranks] == [(0, True), (1, True)]


#: In a Python without `tune`; it ends before the ranks do, and needs no MPI.
IMPORTS = """
import subprocess, sys
code = "from tuner import live; print(live.__file__)"
subprocess.run([sys.argv[1], "-c", code], check=True)
"""


def test_programs_import_the_client_where_tune_is_not_installed(study: Start, folder: Path) -> None:
    venv.create(folder / "venv", symlinks=True)
    python = str(folder / "venv/bin/python")
    tune = study(*OTHERS, "--objective", "wall", "--", python, program=IMPORTS)
    tune.end()
    output = Path(tune.records()[0].folder, "output.log").read_text()
    assert len(re.findall(r"/dev/shm/tune-\w+/code/tuner/live/__init__.py", output)) == 2
