"""The shipped trainers under a real mpirun, changed while they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.live_bench import PROBE, Supervisor
from tests.system.jobs import Done, run_program

pytestmark = [pytest.mark.system, pytest.mark.slow]

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


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    played = Supervisor(tmp_path)
    yield played
    played.close()


#: PyTorch takes seconds to start: two ranks of it are in test_torch_trainer.py.
RANKS = {"chainer_imagenet.py": 2, "torch_ddp.py": 1}


def started(program: str, flags: tuple[str, ...], folder: Path, socket: Path | None) -> Done:
    folder.mkdir()
    variables = {"CHAINER_DATASET_ROOT": str(folder / "none")}
    if socket is not None:
        variables |= {"TUNE_LIVE_SOCKET": str(socket), "PYTHONPATH": str(PROBE)}
    return run_program(folder, WORKLOADS / program, *flags, ranks=RANKS[program], **variables)


def switched(
    supervisor: Supervisor, program: str, flags: tuple[str, ...], folder: Path
) -> tuple[Done, dict[str, Any], list[dict[str, Any]]]:
    """A run that is changed again and again, and goes on beyond its end until all is done."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(started, program, flags, folder, supervisor.path)
        hello = supervisor.hello()
        answers = [supervisor.switch(n, **values) for n, values in enumerate(SWITCHES)]
        while max(supervisor.counted(), default=0) < LENGTH + 3:
            message = supervisor.until("steps")
            assert message is not None
            supervisor.steps.append(message)
        supervisor.close()
        return running.result(), hello, answers


def losses(done: Done) -> list[float]:
    key = "main/loss" if "main/loss" in done.log[0] else "loss"
    return [entry[key] for entry in done.log[:LENGTH]]


@pytest.mark.parametrize(
    ("program", "flags", "more"),
    [("chainer_imagenet.py", ("--loaderjob", "1"), {"communicator"}), ("torch_ddp.py", (), set())],
)
def test_a_job_that_is_changed_learns_what_it_would_have(
    supervisor: Supervisor, tmp_path: Path, program: str, flags: tuple[str, ...], more: set[str]
) -> None:
    if program.startswith("torch"):
        pytest.importorskip("torch")
    plain = started(program, (*SMALL, *flags), tmp_path / "plain", None)
    done, hello, answers = switched(supervisor, program, (*SMALL, *flags), tmp_path / "changed")
    knobs = {"iterator_workers", "prefetch", "opencv_threads", "omp_threads"}
    assert set(hello["can"]) == knobs | more
    for values, answer in zip(SWITCHES, answers, strict=True):
        assert len(answer["ranks"]) == RANKS[program]
        for rank in answer["ranks"]:
            assert rank["errors"] == {}
            wanted = {knob: value or hello["can"][knob] for knob, value in values.items()}
            assert rank["values"].items() >= wanted.items()
    assert (plain.code, done.code) == (0, 0), done.stderr
    assert losses(done) == losses(plain)
    (iterations,) = re.findall(r"done: (\d+) iterations", done.stdout)
    assert int(iterations) > LENGTH
