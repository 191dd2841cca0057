"""The ChainerMN trainers and the stencil under a real mpirun."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import image_files
from chainer_mnist import ITERATIONS
from mnist_data import CACHE
from tests.system.jobs import Done, run_program

pytestmark = pytest.mark.system

WORKLOADS = Path(__file__).parents[2] / "workloads"
TRAINER = WORKLOADS / "chainer_mnist.py"
SMALL = ("--unit", "20", "--batchsize", "10", "--loaderjob", "1")
SMALL_IMAGES = ("--benchmark", "--batchsize", "4", "--crop", "16", "--loaderjob", "1")

Run = Callable[..., Done]


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    root = tmp_path / "dataset root"
    (root / CACHE).mkdir(parents=True)
    generator = np.random.default_rng(0)
    for name, count in (("train.npz", 600), ("test.npz", 100)):
        images = generator.integers(0, 256, (count, 784), dtype=np.uint8)
        labels = generator.integers(0, 10, count, dtype=np.uint8)
        np.savez_compressed(root / CACHE / name, x=images, y=labels)
    return root


@pytest.fixture
def run(tmp_path: Path, mnist: Path) -> Run:
    """Starts the trainer in a folder of its own; afterwards nothing of it may be alive."""

    def start(*flags: str, program: Path = TRAINER) -> Done:
        root = str(mnist)
        return run_program(tmp_path, program, *flags, ranks=2, CHAINER_DATASET_ROOT=root)

    return start


@pytest.mark.slow
def test_a_job_goes_on_from_its_snapshot(run: Run) -> None:
    first = run(*SMALL, "--benchmark", "--snapshot-every", "3", "--iterations", "10")
    assert first.clean, first.stderr
    kept = sorted(path.name for path in first.out.glob("snapshot_*"))
    assert kept == ["snapshot_iter_6", "snapshot_iter_9"], "the last two"
    resume = ("--resume", str(first.out / "snapshot_iter_6"))
    second = run(*SMALL, "--benchmark", *resume, "--iterations", "10", "--log-writes", "10")
    assert second.clean, second.stderr
    assert [entry["iteration"] for entry in second.log] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert first.log[:6] == second.log[:6], "what was done before stays as it was"
    refused = run(*SMALL, "--resume", str(first.out / "log"))
    assert refused.code == 2
    assert "log: that is no snapshot" in refused.stderr


def test_benchmark_mode_has_its_own_length_evaluates_and_writes_the_log_alone(
    run: Run, tmp_path: Path
) -> None:
    """In a path with a space, with workers that are forked."""
    copy = tmp_path / "my workloads"
    shutil.copytree(WORKLOADS, copy)
    flags = ("--loaderjob", "2", "--prefetch", "2", "--start-method", "fork")
    done = run("--benchmark", *SMALL, *flags, program=copy / TRAINER.name)
    assert done.clean, done.stderr
    assert [path.name for path in done.out.iterdir()] == ["log"]
    written = [entry["iteration"] for entry in done.log]
    assert (len(written), written[-1]) == (20, ITERATIONS)
    assert {"main/loss", "main/accuracy", "validation/main/loss"} <= done.log[-1].keys()
    data, summary, end = done.stdout.splitlines()
    assert data.startswith("data: MNIST from ") and "600 + 100 examples" in data
    assert "25 iterations, 2 ranks, batch 10, unit 20, CPU, naive, loader jobs 2" in summary
    assert end.startswith("done: 25 iterations in ")


def test_the_whole_job_counts_epochs_and_prints_a_table(run: Run) -> None:
    done = run(*SMALL, "--epoch", "2", "--log-writes", "4")
    assert done.clean, done.stderr
    assert [entry["iteration"] for entry in done.log] == [15, 30, 45, 60]
    assert [entry["epoch_detail"] for entry in done.log] == [0.5, 1.0, 1.5, 2.0]
    validated = [entry["epoch"] for entry in done.log if "validation/main/loss" in entry]
    assert validated == [1, 2]
    assert "validation/main/loss" in done.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--out", "/dev/null/out"], "--out /dev/null/out: cannot write there"),
        ([*SMALL, "--out", "other"], "train.npz cannot be read"),
    ],
)
def test_a_refusal_is_one_line_from_one_rank(
    run: Run, mnist: Path, flags: list[str], words: str
) -> None:
    (mnist / CACHE / "train.npz").write_bytes(b"PK")
    done = run("--benchmark", *flags)
    assert done.code == 2
    assert len(done.errors) == 1 and words in done.errors[0]
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert not done.out.exists()


@pytest.mark.slow
def test_two_epochs_of_a_folder_and_a_broken_file_in_it(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "my images"
    source = image_files.synthetic(0).train
    for number in range(25):
        path = folder / f"class{number % 2}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read(number))
    words, program = (*SMALL_IMAGES, "--data", str(folder)), WORKLOADS / "chainer_imagenet.py"
    done = run(*words, "--epoch", "2", "--start-method", "forkserver", program=program)
    assert done.clean, done.stderr
    assert f"data: {folder}, 24 + 1 images" in done.stdout
    assert "2 epochs, 2 ranks, batch 4, small, crop 16, CPU, naive" in done.stdout
    last = done.log[-1]
    assert (last["epoch"], last["iteration"], last["epoch_detail"]) == (2, 6, 2.0)
    assert math.isfinite(last["main/loss"]) and math.isfinite(last["validation/main/loss"])
    (folder / "class1" / "03.jpg").write_bytes(b"")
    done = run(*words, "--epoch", "1", program=program)
    assert f"{folder}/class1/03.jpg: it is empty" in done.stderr and not done.clean


def test_of_the_stencil_three_ranks_find_what_one_finds_and_say_how_long_it_took(
    tmp_path: Path,
) -> None:
    flags, program = ("--rows", "7", "--columns", "5", "--steps", "3"), WORKLOADS / "mpi_stencil.py"
    sums = []
    for ranks in (1, 3):
        done = run_program(tmp_path, program, *flags, ranks=ranks, OPENBLAS_NUM_THREADS="1")
        assert done.clean, done.stderr
        assert re.search(r"^time per step: [\d.]+ ms$", done.stdout, re.MULTILINE)
        assert f"run: 3 steps, {ranks} rank" in done.stdout
        sums += re.findall(r"^checksum: (\S+), largest error \S+$", done.stdout, re.MULTILINE)
    assert sums == ["3.500000000e+01"] * 2
