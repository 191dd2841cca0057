"""The image trainer under a real mpirun."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import image_files
from tests.trainer_runs import Done, launch

pytestmark = [pytest.mark.system, pytest.mark.slow]

TRAINER = Path(__file__).parents[2] / "workloads" / "chainer_imagenet.py"
SMALL = ("--benchmark", "--batchsize", "4", "--crop", "16", "--loaderjob", "1")

Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Starts the trainer with two ranks in a folder of its own."""

    def start(*flags: str) -> Done:
        return launch(TRAINER, (*SMALL, *flags), ranks=2, cwd=tmp_path, variables={})

    return start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty-three good images and two broken ones, in two classes."""
    root = tmp_path / "my images"
    source = image_files.made_up(0).train
    for number in range(25):
        path = root / f"class{number % 2}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read(number) if number not in {3, 8} else b"broken"[: number - 3])
    return root


def test_two_epochs_of_a_folder_with_broken_files(run: Run, folder: Path) -> None:
    done = run("--data", str(folder), "--epoch", "2", "--start-method", "forkserver")
    assert done.clean, done.stderr
    assert f"data: {folder}, 24 + 1 images" in done.stdout
    assert "2 epochs, 2 ranks, batch 4, small, crop 16, CPU, naive" in done.stdout
    assert f"skipped: {folder}/class1/03.jpg: it is empty" in done.stderr
    assert f"skipped: {folder}/class0/08.jpg: it cannot be decoded" in done.stderr
    last = done.log[-1]
    assert (last["epoch"], last["iteration"], last["epoch_detail"]) == (2, 6, 2.0)
    assert math.isfinite(last["main/loss"]) and math.isfinite(last["validation/main/loss"])


def test_a_seed_gives_one_run_whatever_the_workers_and_how_they_start(run: Run) -> None:
    def losses(*flags: str) -> list[float]:
        done = run("--iterations", "3", *flags)
        assert done.clean, done.stderr
        assert [path.name for path in done.out.iterdir()] == ["log"]
        return [entry["main/loss"] for entry in done.log]

    first = losses("--start-method", "spawn")
    assert losses("--loaderjob", "2", "--prefetch", "3", "--start-method", "fork") == first
