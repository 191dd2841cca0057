"""Real ranks that are changed while they run: by the test, and by a whole study."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.light_trainer import tune
from tests.live_bench import PATIENCE_S, PROBE, Supervisor
from tests.marked import marked
from tests.system.jobs import launch_of
from tuner.hosts import process
from tuner.hosts.probe import probe_environment, probe_folder, read_reports

pytestmark = pytest.mark.system

RANKS = 2

#: Each rank says at which of its iterations a value came.
SESSION = """
import numpy as np
from mpi4py import MPI
from tuner import live
world, session = MPI.COMM_WORLD, live.session()
state = {"done": 0, "workers": 1}
def workers(value):
    state["workers"] = value
    print("rank", world.rank, "after", state["done"], "has", value, flush=True)
def fails(value):
    if world.rank == 1:
        raise ValueError("not here")
session.on("workers", workers, lambda: state["workers"])
session.on("fails", fails)
session.on("end", lambda _: state.update(end=True))
matrix = np.ones((300, 300))
while "end" not in state:
    world.allreduce((matrix @ matrix)[0, 0])
    state["done"] += 1
    session.step()
world.Barrier()  # no rank is gone before the others have changed
print("rank", world.rank, "ended after", state["done"], flush=True)
"""

#: It has no line for us but the one by which the test ends it. An epoch has 6 iterations.
TORCH = """
import os
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", {port!r}
os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
import torch, torch.distributed
from tuner import live
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.ones(60, 20))
done, end = 0, []
live.session().on("end", end.append)
while done < 20 or not end:
    for (rows,) in torch.utils.data.DataLoader(data, batch_size=10):
        optimizer.zero_grad()
        model(rows).sum().backward()
        optimizer.step()
        done += 1
torch.distributed.barrier()
print("rank", os.environ["RANK"], "ended after", done, flush=True)
torch.distributed.destroy_process_group()
"""

#: Rank 0 needs what rank 1 has in MPI; without shared memory of the kernel (CMA) its bytes only
#: move as long as rank 1 is inside of MPI, which it is not at its gate.
UNFINISHED = """
import numpy as np
from mpi4py import MPI
from tuner import live
world, big = MPI.COMM_WORLD, np.ones(10**6)
session, end = live.session(), []
session.on("end", end.append)
while not end:
    if world.rank:
        request = world.Isend(big, 0)
        session.step()
        request.Wait()
    else:
        world.Recv(big, 1)
        session.step()
world.Barrier()
print("rank", world.rank, "ended", flush=True)
"""

Start = Callable[..., process.SupervisedCommand]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    played = Supervisor(tmp_path, RANKS)
    yield played
    played.close()


@pytest.fixture
def start(tmp_path: Path, supervisor: Supervisor) -> Iterator[Start]:
    """Start a program on two ranks; nothing of it is left."""
    begun: list[process.SupervisedCommand] = []

    def run(code: str) -> process.SupervisedCommand:
        (tmp_path / "probe").mkdir()
        root = Path(__file__).resolve().parents[2]
        env = {"PYTHONPATH": f"{root}:{root / 'workloads'}"}
        env |= probe_environment(tmp_path, {**os.environ, **env})
        env |= {"TUNE_LIVE_FILE": str(supervisor.path)}
        one = {"OMP_NUM_THREADS": "1"}
        launch = launch_of(tmp_path, ["-c", code], ranks=RANKS, assigned=one, env=env)
        begun.append(process.start(launch))
        return begun[0]

    yield run
    for running in begun:
        running.stop()


def finished(running: process.SupervisedCommand, folder: Path) -> list[str]:
    """What the ranks printed, when the job has ended well."""
    ended = running.wait(PATIENCE_S)
    output = (folder / process.OUTPUT).read_text()
    assert ended is not None, output
    assert ended.code == 0, output
    return sorted(output.splitlines())


def test_a_loop_is_changed_on_all_ranks_at_once(
    start: Start, supervisor: Supervisor, tmp_path: Path
) -> None:
    def threads(*values: int | None) -> list[tuple[object, object]]:
        """Switch to these counts: of each the value of the knob, and that of its BLAS."""
        answers: list[tuple[object, object]] = []
        for value in values:
            ranks = supervisor.switch(omp_threads=value).ranks
            reports = read_reports(probe_folder(tmp_path))
            answers += [
                (rank.values["omp_threads"], reports[rank.rank].view.blas_threads) for rank in ranks
            ]
        return answers

    running = start(SESSION)
    hello = supervisor.hello()
    assert (hello.hook, hello.ranks) == ("session", RANKS)
    assert hello.can == {"omp_threads": 1, "workers": 1, "fails": None, "end": None}
    two = min(2, len(os.sched_getaffinity(0)))
    assert threads(2, 1, 64, None) == [(n, n) for n in (two, 1, two, 1) for _ in range(RANKS)]
    changed = supervisor.switch(workers=4, fails=1)
    assert [rank.errors for rank in changed.ranks] == [{}, {"fails": "ValueError: not here"}]
    assert [rank.values["workers"] for rank in changed.ranks] == [4, 4]
    supervisor.finish(end=1)
    counted = supervisor.counted()
    assert counted == list(range(2, 2 + len(counted)))
    printed = finished(running, tmp_path)
    assert printed.count("ValueError: not here") == 1, "the program's mistake is shown where it is"
    said = [line.split(" ", 2)[2] for line in printed if line.startswith("rank ")]
    assert said[:2] == said[2:], "both ranks at the same iteration"
    assert said[0] == f"after {changed.iteration - 1} has 4"
    assert said[1] == f"ended after {counted[-1]}"


@pytest.mark.slow
def test_pytorchs_own_loop_is_changed(start: Start, supervisor: Supervisor, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    running = start(TORCH.format(port=str(20_000 + os.getpid() % 10_000)))
    assert supervisor.hello().hook == "torch"
    answer = supervisor.switch(omp_threads=2)
    two = min(2, len(os.sched_getaffinity(0)))
    assert [rank.values["omp_threads"] for rank in answer.ranks] == [two] * RANKS
    supervisor.switch(omp_threads=None)
    supervisor.finish(end=1)
    counted = supervisor.counted()
    assert counted == list(range(3, 3 + len(counted))), "none was left out"
    assert supervisor.marks() == [n for n in counted if n % 6 == 1], "where the loader starts"
    ends = {line.split(" ", 2)[2] for line in finished(running, tmp_path)}
    assert len(ends) == 1, "all ranks end after the same iteration"


@pytest.mark.slow
def test_messages_of_the_program_that_are_under_way_keep_no_rank_at_its_gate(
    start: Start, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_MCA_smsc", "^cma")
    running = start(UNFINISHED)
    supervisor.hello()
    for _ in range(20):
        supervisor.switch(omp_threads=1)
    supervisor.finish(end=1)
    assert finished(running, tmp_path) == ["rank 0 ended", "rank 1 ended"]


# --- the shipped trainers -------------------------------------------------------------------

WORKLOADS = Path(__file__).parents[2] / "workloads"
LENGTH = 8
SMALL = (
    *("--benchmark", "--iterations", str(LENGTH), "--log-writes", str(LENGTH)),
    *("--batchsize", "4", "--crop", "16"),
)

SWITCHES: tuple[dict[str, Any], ...] = (
    {"iterator_workers": 2, "prefetch": 4, "omp_threads": 1},
    {"iterator_workers": 1, "opencv_threads": 2},
    {"iterator_workers": None, "prefetch": None, "opencv_threads": None},
)


#: PyTorch takes seconds to start: two ranks of it are in test_trial_mpirun.py.
TRAINERS = {"chainer_imagenet.py": 2, "torch_ddp.py": 1}


def begun(program: str, folder: Path, *flags: str, **variables: str) -> process.SupervisedCommand:
    folder.mkdir()
    env = {"CHAINER_DATASET_ROOT": str(folder / "none"), "OMP_NUM_THREADS": "1", **variables}
    words = [str(WORKLOADS / program), *SMALL, *flags]
    return process.start(launch_of(folder, words, ranks=TRAINERS[program], env=env))


def losses(folder: Path) -> list[float]:
    log = json.loads((folder / "result" / "log").read_text())
    key = "main/loss" if "main/loss" in log[0] else "loss"
    return [entry[key] for entry in log[:LENGTH]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "flags", "hook", "more"),
    [
        ("chainer_imagenet.py", ("--loaderjob", "1"), "chainer", {"communicator"}),
        ("torch_ddp.py", (), "session", set()),
    ],
)
def test_a_job_that_is_changed_learns_what_it_would_have_and_goes_on_beyond_its_end(
    tmp_path: Path, program: str, flags: tuple[str, ...], hook: str, more: set[str]
) -> None:
    if program.startswith("torch"):
        pytest.importorskip("torch")
    plain = begun(program, tmp_path / "plain", *flags)
    assert finished(plain, tmp_path / "plain")
    supervisor = Supervisor(tmp_path, TRAINERS[program])
    variables = {"TUNE_LIVE_FILE": str(supervisor.path), "PYTHONPATH": str(PROBE)}
    changed = begun(program, tmp_path / "changed", *flags, **variables)
    try:
        hello = supervisor.hello()
        answers = [supervisor.switch(**values) for values in SWITCHES]
        supervisor.wait_for(LENGTH + 3)
    finally:
        changed.stop()
        supervisor.close()
    knobs = {"iterator_workers", "prefetch", "opencv_threads", "omp_threads"}
    assert (hello.hook, set(hello.can)) == (hook, knobs | more)
    for values, answer in zip(SWITCHES, answers, strict=True):
        assert len(answer.ranks) == TRAINERS[program]
        for rank in answer.ranks:
            assert rank.errors == {}
            wanted = {knob: value or hello.can[knob] for knob, value in values.items()}
            assert rank.values.items() >= wanted.items()
    assert losses(tmp_path / "changed") == losses(tmp_path / "plain")


# --- a study whose settings are measured in a running job (faults: test_campaigns.py) -----------

#: A loop of 30 iterations that goes on while the study wants more of it.
PROGRAM = """
import json, os, sys, time
import numpy
from mpi4py import MPI
from tuner import live
world, session, log = MPI.COMM_WORLD, live.session(), []
begun_s = time.monotonic()
while len(log) < 30 or session.more():
    time.sleep(0.02)
    world.Barrier()
    log.append({"iteration": len(log) + 1, "elapsed_time": time.monotonic() - begun_s})
    if world.rank == 0:
        with open(sys.argv[1] + "/draft", "w") as file:
            json.dump(log[:30], file)
        os.replace(sys.argv[1] + "/draft", sys.argv[1] + "/log")
    session.step()
"""

#: Not confirmed: that is launches, as without windows.
STUDY = (
    *("-n", "2", "--trials", "2", "--knob", "omp_threads=1,2", "--mpirun-arg", "--bind-to none"),
    *("--min-gain", "20%", "--no-confirm", "--live", "on", "--json"),
)


def test_one_job_measures_the_settings_of_a_search(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    command = ("--", sys.executable, "-m", "mpi4py", "train.py", "{out}")
    done = tune(tmp_path, *STUDY, *command, TUNE_STORAGE=str(tmp_path / "tune.db"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["windows"] > result["jobs"], "a job has measured several settings"
    assert result["launches"] - result["windows"] == 2, "the warm-up and the baseline"
    assert result["best"]["samples"]
    assert "(job 2)" in done.stderr, "the first launch after the warm-up went on"
    assert marked(str(tmp_path), "TUNE_LOCK_DIR") == []
