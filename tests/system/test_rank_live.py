"""Real ranks that are changed while they run; the test is the supervisor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import PATIENCE_S, PROBE, Supervisor
from tests.system.jobs import launch_of
from tuner.hosts import process
from tuner.hosts.probe import probe_environment
from tuner.live.server import Switched

pytestmark = pytest.mark.system

RANKS = 2

#: Each rank says at which of its iterations a value came.
SESSION = """
import sys
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
agent = sys.modules["tune_rank_live"].agent()
state = {"done": 0, "workers": 1}
def workers(value):
    state["workers"] = value
    print("rank", world.rank, "after", state["done"], "has", value, flush=True)
def fails(value):
    if world.rank == 1:
        raise ValueError("not here")
agent.offer("workers", workers, lambda: state["workers"])
agent.offer("fails", fails)
agent.offer("end", lambda _: state.update(end=True))
matrix = np.ones((300, 300))
while "end" not in state:
    world.allreduce((matrix @ matrix)[0, 0])
    state["done"] += 1
    agent.step()
world.Barrier()  # no rank is gone before the others have changed
print("rank", world.rank, "ended after", state["done"], flush=True)
"""

#: These have no line for us but the one by which the test ends them.
CHAINER = """
import sys
import compat
compat.install()
import chainer, chainermn, numpy as np
from chainer import training
from chainer.training import extensions
world = chainermn.create_communicator("naive")
data = chainer.datasets.TupleDataset(np.ones((60, 20), "f"), np.zeros(60, "i"))
model = chainer.links.Classifier(chainer.links.Linear(20, 2))
optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(), world)
optimizer.setup(model)
updater = training.StandardUpdater(chainer.iterators.SerialIterator(data, 10), optimizer)
end = []
sys.modules["tune_rank_live"].agent().offer("end", end.append)
enough = lambda trainer: updater.iteration >= 40 and bool(end)
trainer = training.Trainer(updater, enough, out={out!r})
rows = chainer.iterators.SerialIterator(data, 10, repeat=False, shuffle=False)
trainer.extend(extensions.Evaluator(rows, model), trigger=(16, "iteration"))
trainer.run()
print("rank", world.rank, "ended after", updater.iteration, flush=True)
"""

TORCH = """
import os, sys
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", {port!r}
os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
import torch, torch.distributed
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.ones(60, 20))
done, end = 0, []
sys.modules["tune_rank_live"].agent().offer("end", end.append)
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

#: Rank 0 ends first.
UNEVEN = """
import sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
agent = sys.modules["tune_rank_live"].agent()
agent.step()
agent.step()
world.Barrier()  # both have begun
for _ in range(50 * (1 + world.rank)):
    time.sleep(0.01)
    agent.step()
print("rank", world.rank, "passive", agent.passive, flush=True)
"""

#: Rank 0 needs what rank 1 has in MPI; without shared memory of the kernel (CMA) its bytes only
#: move as long as rank 1 is inside of MPI, which it is not at its gate.
UNFINISHED = """
import sys
import numpy as np
from mpi4py import MPI
world, big = MPI.COMM_WORLD, np.ones(10**6)
agent, end = sys.modules["tune_rank_live"].agent(), []
agent.offer("end", end.append)
while not end:
    if world.rank:
        request = world.Isend(big, 0)
        agent.step()
        request.Wait()
    else:
        world.Recv(big, 1)
        agent.step()
world.Barrier()
print("rank", world.rank, "ended", flush=True)
"""

Start = Callable[..., process.RunningTrial]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    played = Supervisor(tmp_path, RANKS)
    yield played
    played.close()


@pytest.fixture
def start(tmp_path: Path, supervisor: Supervisor) -> Iterator[Start]:
    """Start a program on two ranks; nothing of it is left."""
    begun: list[process.RunningTrial] = []

    def run(code: str) -> process.RunningTrial:
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


def finished(running: process.RunningTrial, folder: Path) -> list[str]:
    """What the ranks printed, when the job has ended well."""
    ended = running.wait(PATIENCE_S)
    output = (folder / process.OUTPUT).read_text()
    assert ended is not None, output
    assert ended.code == 0, output
    return sorted(output.splitlines())


def threads(answer: Switched) -> list[tuple[Any, int | None]]:
    """Of each rank the value of the knob, and the threads that its BLAS has."""
    return [(rank.values["omp_threads"], rank.blas_threads) for rank in answer.ranks]


def test_a_loop_is_changed_on_all_ranks_at_once(
    start: Start, supervisor: Supervisor, tmp_path: Path
) -> None:
    running = start(SESSION)
    hello = supervisor.hello()
    assert (hello.hook, hello.ranks) == ("session", RANKS)
    assert hello.can == {"omp_threads": 1, "workers": 1, "fails": None, "end": None}
    two = min(2, len(os.sched_getaffinity(0)))
    assert threads(supervisor.switch(omp_threads=2)) == [(two, two)] * RANKS
    changed = supervisor.switch(omp_threads=1, workers=4, fails=1)
    assert threads(changed) == [(1, 1)] * RANKS
    assert [rank.errors for rank in changed.ranks] == [{}, {"fails": "ValueError: not here"}]
    assert [rank.values["workers"] for rank in changed.ranks] == [4, 4]
    assert threads(supervisor.switch(omp_threads=64)) == [(two, two)] * RANKS
    assert threads(supervisor.switch(omp_threads=None)) == [(1, 1)] * RANKS
    supervisor.finish(end=1)
    counted = supervisor.counted()
    assert counted == list(range(2, 2 + len(counted)))
    printed = finished(running, tmp_path)
    assert printed.count("ValueError: not here") == 1, "the program's mistake is shown where it is"
    said = [line.split(" ", 2)[2] for line in printed if line.startswith("rank ")]
    assert said[:2] == said[2:], "both ranks at the same iteration"
    assert said[0] == f"after {changed.iteration - 1} has 4"
    assert said[1] == f"ended after {counted[-1]}"


def chainer_marks(last: int) -> set[int]:
    """Epochs of 6 iterations; an evaluation comes between the 16th and the 17th, …"""
    return {n for n in range(2, last + 1) if n % 6 == 0 or n % 16 in {0, 1}}


def torch_marks(last: int) -> set[int]:
    """The first batch of each epoch."""
    return set(range(7, last + 1, 6))


@pytest.mark.parametrize(
    ("hook", "package", "first", "code", "marks"),
    [("chainer", "mpi4py", 2, CHAINER, chainer_marks), ("torch", "torch", 3, TORCH, torch_marks)],
    ids=["chainer", "torch"],
)
def test_a_frameworks_own_loop_is_changed(
    start: Start,
    supervisor: Supervisor,
    tmp_path: Path,
    hook: str,
    package: str,
    first: int,
    code: str,
    marks: Callable[[int], set[int]],
) -> None:
    pytest.importorskip(package)
    port = str(20_000 + os.getpid() % 10_000)
    running = start(code.format(out=str(tmp_path), port=port))
    assert supervisor.hello().hook == hook
    answer = supervisor.switch(omp_threads=2)
    assert answer.iteration > 2
    two = min(2, len(os.sched_getaffinity(0)))
    for rank in answer.ranks:
        assert rank.values["omp_threads"] == two
        assert hook != "torch" or dict(rank.pools)["torch"] == two
    supervisor.switch(omp_threads=None)
    supervisor.finish(end=1)
    counted = supervisor.counted()
    assert counted == list(range(first, first + len(counted))), "none was left out"
    last = counted[-1]
    assert finished(running, tmp_path) == [f"rank {n} ended after {last}" for n in range(RANKS)]
    assert set(supervisor.marks()) == marks(last)


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


def test_once_rank_0_has_ended_no_other_takes_part(
    start: Start, supervisor: Supervisor, tmp_path: Path
) -> None:
    running = start(UNEVEN)
    supervisor.hello()
    supervisor.wait_for_end()
    assert finished(running, tmp_path) == ["rank 0 passive False", "rank 1 passive True"]


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


def begun(program: str, folder: Path, *flags: str, **variables: str) -> process.RunningTrial:
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
    ("program", "flags", "more"),
    [("chainer_imagenet.py", ("--loaderjob", "1"), {"communicator"}), ("torch_ddp.py", (), set())],
)
def test_a_job_that_is_changed_learns_what_it_would_have_and_goes_on_beyond_its_end(
    tmp_path: Path, program: str, flags: tuple[str, ...], more: set[str]
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
    assert set(hello.can) == knobs | more
    for values, answer in zip(SWITCHES, answers, strict=True):
        assert len(answer.ranks) == TRAINERS[program]
        for rank in answer.ranks:
            assert rank.errors == {}
            wanted = {knob: value or hello.can[knob] for knob, value in values.items()}
            assert rank.values.items() >= wanted.items()
    assert losses(tmp_path / "changed") == losses(tmp_path / "plain")
