from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import chainer_imagenet
import chainer_mnist
import mpi_stencil
import torch_ddp
from trainer_options import Length, WorkloadError

PARSERS: dict[str, Callable[[Sequence[str]], Any]] = {
    "mnist": chainer_mnist.parse,
    "imagenet": chainer_imagenet.parse,
    "torch": torch_ddp.parse,
    "stencil": lambda argv: mpi_stencil.parse(argv, 4),
}


@pytest.mark.parametrize(
    ("trainer", "line", "found"),
    [
        ("mnist", "", {"batchsize": 100, "unit": 1000, "prefetch": 1, "log_writes": 20}),
        ("mnist", "", {"loaderjob": None, "communicator": "naive", "out": Path("result")}),
        ("mnist", "", {"length": Length(20, "epoch")}),
        ("mnist", "--benchmark", {"length": Length(25, "iteration")}),
        ("mnist", "--benchmark --iterations 7", {"length": Length(7, "iteration")}),
        ("mnist", "--iteration 7", {"length": Length(7, "iteration")}),
        ("mnist", "--epoch 3 --benchmark", {"length": Length(3, "epoch")}),
        ("mnist", "--gpu", {"communicator": "pure_nccl"}),
        ("mnist", "--gpu --communicator flat", {"communicator": "flat"}),
        ("mnist", "-b 5 -u 6 -j 2 --prefetch 3 --seed 9", {"batchsize": 5, "unit": 6, "seed": 9}),
        ("mnist", "-j 2 --prefetch 3 --start-method spawn", {"loaderjob": 2, "prefetch": 3}),
        ("mnist", "--gpu --fp16-gradients", {"fp16_gradients": True}),
        ("imagenet", "", {"length": Length(90, "epoch"), "arch": "small", "crop": 64}),
        ("imagenet", "--gpu", {"arch": "resnet50", "crop": 224, "val_batchsize": 16}),
        ("imagenet", "--gpu -a small --crop 32 -B 5", {"arch": "small", "crop": 32}),
        ("imagenet", "-b 7 --data a", {"val_batchsize": 7, "data": Path("a")}),
        ("torch", "--benchmark", {"loaderjob": None, "prefetch": 2, "bucket_mb": None}),
        ("torch", "-j 0", {"loaderjob": 0, "backend": "gloo", "pin_memory": "no"}),
        ("torch", "--gpu --pin-memory yes", {"backend": "nccl", "arch": "resnet50"}),
        ("torch", "--gpu --backend gloo", {"backend": "gloo"}),
        ("stencil", "", {"rows": 1024, "columns": 768, "sweeps": 2, "steps": 5000}),
        ("stencil", "--benchmark", {"steps": 100}),
        ("stencil", "--benchmark --steps 7 --rows 4", {"steps": 7, "rows": 4}),
    ],
)
def test_a_flag_arrives_and_a_default_stands_for_one_that_is_not_given(
    trainer: str, line: str, found: dict[str, object]
) -> None:
    assert vars(PARSERS[trainer](line.split())).items() >= found.items()


@pytest.mark.parametrize(
    ("trainer", "line", "named"),
    [
        ("mnist", "--loaderjob 0", "--loaderjob: 0 is not 1 or more"),
        ("mnist", "--unit many", "--unit: invalid integer value: 'many'"),
        ("mnist", "--seed -1", "--seed: -1 is not 0 or more"),
        ("mnist", f"--seed {2**31}", "--seed: 2147483648 is not below 2147483648"),
        ("mnist", "--communicator hierarchical", "invalid choice: 'hierarchical'"),
        ("mnist", "--iterations 3 --epochs 1", "not allowed with"),
        ("mnist", "--loader 3", "unrecognized arguments: --loader"),
        ("mnist", "--communicator flat", "--communicator flat: it exchanges GPU memory"),
        ("mnist", "--fp16-gradients", "--fp16-gradients: needs --communicator pure_nccl"),
        ("mnist", "--gpu --communicator flat --double-buffering", "--double-buffering: needs"),
        ("imagenet", "--arch vgg", "invalid choice: 'vgg'"),
        ("torch", "--backend nccl", "--backend nccl: needs --gpu"),
        ("torch", "--pin-memory yes", "--pin-memory yes: needs --gpu"),
        ("stencil", "--rows 3", "--rows 3: each of the 4 ranks needs at least one row; use"),
        ("stencil", "--columns 1", "--columns: 1 is not 2 or more"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_value(trainer: str, line: str, named: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        PARSERS[trainer](line.split())
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
