"""The flags of the shipped trainers."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.chainer_options import (
    MNIST,
    ImagenetOptions,
    MnistOptions,
    parse_imagenet,
    parse_mnist,
)
from workloads.image_options import DEFAULTS, ImageOptions
from workloads.trainer_options import Length, WorkloadError


def options(*argv: str) -> MnistOptions:
    return parse_mnist("trainer.py", "A trainer.", argv)


def imagenet(*argv: str) -> ImagenetOptions:
    return parse_imagenet("trainer.py", "A trainer.", argv)


def test_the_defaults_are_the_whole_job_with_the_librarys_own_settings() -> None:
    assert options() == MnistOptions(
        batchsize=100,
        unit=1000,
        length=Length(MNIST.epochs, "epoch"),
        loaderjob=None,
        prefetch=1,
        communicator="naive",
        start_method=None,
        seed=0,
        gpu=False,
        fp16_gradients=False,
        double_buffering=False,
        out=Path("result"),
        cprofile=None,
        benchmark=False,
        log_writes=20,
    )


@pytest.mark.parametrize(
    ("argv", "length"),
    [
        (["--benchmark"], Length(MNIST.iterations, "iteration")),
        (["--benchmark", "--iterations", "7"], Length(7, "iteration")),
        (["--iteration", "7"], Length(7, "iteration")),
        (["--epoch", "3", "--benchmark"], Length(3, "epoch")),
        (["--epochs", "3"], Length(3, "epoch")),
    ],
)
def test_the_length(argv: list[str], length: Length) -> None:
    assert options(*argv).length == length


def test_a_length_reads_as_words() -> None:
    assert str(Length(1, "epoch")) == "1 epoch"
    assert str(Length(25, "iteration")) == "25 iterations"


def test_every_flag_arrives() -> None:
    got = options(
        *[
            "--batchsize",
            "5",
            "--unit",
            "6",
            "--loaderjob",
            "2",
            "--prefetch",
            "3",
            "--start-method",
            "spawn",
            "--seed",
            "9",
        ],
        *["--gpu", "--fp16-gradients", "--double-buffering", "--log-writes", "1"],
        *("--out", "my out", "--cprofile", "prof"),
    )
    assert (got.batchsize, got.unit, got.loaderjob, got.prefetch) == (5, 6, 2, 3)
    assert (got.start_method, got.seed, got.log_writes) == ("spawn", 9, 1)
    assert got.gpu and got.fp16_gradients and got.double_buffering
    assert (got.out, got.cprofile) == (Path("my out"), Path("prof"))


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--loaderjob", "0"], "--loaderjob: 0 is not 1 or more"),
        (["--batchsize", "-3"], "--batchsize: -3 is not 1 or more"),
        (["--unit", "many"], "--unit: invalid integer value: 'many'"),
        (["--seed", "-1"], "--seed: -1 is not in 0..2147483647"),
        (["--communicator", "hierarchical"], "invalid choice: 'hierarchical'"),
        (["--start-method", "thread"], "invalid choice: 'thread'"),
        (["--iterations", "3", "--epochs", "1"], "not allowed with"),
        (["--loader", "3"], "unrecognized arguments: --loader"),
        (["--out"], "--out: expected one argument"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_value(argv: list[str], named: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        options(*argv)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_image_trainer_has_the_same_flags_and_its_own() -> None:
    got = imagenet(
        *[
            "--benchmark",
            "-j",
            "2",
            "--prefetch",
            "3",
            "--communicator",
            "naive",
            "--data",
            "a",
            "--val",
            "b",
        ]
    )
    assert (got.length, got.loaderjob) == (Length(DEFAULTS.iterations, "iteration"), 2)
    assert (got.prefetch, got.batchsize) == (3, DEFAULTS.batchsize)
    assert got.images == ImageOptions("small", 64, 16, Path("a"), Path("b"))
    assert imagenet().length == Length(DEFAULTS.epochs, "epoch")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--arch", "vgg"], "invalid choice: 'vgg'"),
        (["--crop", "0"], "--crop: 0 is not 1 or more"),
        (["--val", "b"], "--val: needs --data as well"),
        (["--unit", "5"], "unrecognized arguments: --unit"),
    ],
)
def test_a_mistake_in_the_image_trainers_flags_is_one_line(argv: list[str], named: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        imagenet(*argv)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
