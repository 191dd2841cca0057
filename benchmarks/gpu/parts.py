"""The parts of a run: which study each tunes, for how long, and how it runs without a GPU."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What a study loses and what becomes smaller, so that it runs on CPUs in seconds.
_ON_CPUS = (
    (r" --gpu| --arch resnet50| --pin-memory (yes|\{pin_memory\})", ""),
    (r"\[knobs\.pin_memory\].*\nvalues.*\n", ""),
    (r"--crop \d+", "--crop 32"),
    (r"--batchsize \d+", "--batchsize 4"),
    (r"--iterations \d+", "--iterations 20"),  # the fewest that a running job's windows need
)


@dataclass(frozen=True)
class Part:
    """One study. ``share`` is how much of the time it gets, beside the shares of the others."""

    name: str
    study: str  # a file's path below the checkout
    share: float
    batch: int  # examples of a rank and iteration, as the study's command has it
    iterations: int
    ranks: int = 1
    more: str = ""  # appended to the program's words
    options: tuple[str, ...] = ()

    def study_text(self, *, has_device: bool) -> str:
        """Return the study file, with the length of a launch and with or without a GPU."""
        length = f"--benchmark --iterations {self.iterations}{self.more}"
        text = (ROOT / self.study).read_text().replace("--benchmark", length)
        for pattern, replacement in () if has_device else _ON_CPUS:
            text = re.sub(pattern, replacement, text)
        return text

    def words(self, *, has_device: bool, search_s: float) -> list[str]:
        """Return the options of ``tune``; the search ends after ``search_s`` seconds."""
        options = [*self.options, "--mpi-procs", str(self.ranks), "--objective", "logreport:steady"]
        options += ["--samples-per-run", str(self.batch * self.ranks), "--trial-limit", "60s"]
        # Of launches side by side the use of the GPU is not recorded.
        options += ["--compare", "in-turn", "--budget", f"{search_s:.0f}s"]
        return options if has_device else [*options, "--trials", "2", "--confirm", "none"]


_AS_MANY_AS_CORES = ("--baseline", f"iterator_workers={os.cpu_count()}")

PARTS = (
    Part(
        "torch_loader", "benchmarks/gpu/torch_loader.toml", 1.2, 128, 60, options=_AS_MANY_AS_CORES
    ),
    Part("torch_ddp", "studies/torch_ddp_gpu.toml", 1.1, 32, 60),
    Part("chainer_mnist", "studies/chainer_mnist_gpu.toml", 0.7, 100, 200),
    Part("chainer_imagenet", "studies/chainer_imagenet_gpu.toml", 1.1, 32, 40),
    # Gloo, as NCCL refuses two ranks on one device.
    Part("torch_ddp_2_ranks", "studies/torch_ddp_gpu.toml", 0.9, 32, 30, 2, " --backend gloo"),
)
