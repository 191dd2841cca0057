"""The ChainerMN trainers' own parts, without a job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import chainer_imagenet
import chainer_mnist
import compat
from chainer_imagenet import next_order
from chainer_training import find_gpus, interval_or_end, refusal
from ranks import HostGpus
from trainer_options import Length

NO_GPU = HostGpus(missing="CuPy is not installed")
TWO = HostGpus(2, nccl=True)

COMPAT = """
import sys, compat
compat.install()
import numpy as np
assert np.float is float
assert [kind().itemsize for kind in np.sctypes["int"]] == [1, 2, 4, 8]
before = np.sctypes, sys.modules["chainer._environment_check"]
import chainer, chainermn, chainer.functions as F
x = chainer.Variable(np.ones((1, 1, 4, 4), np.float32))
assert F.resize_images(x, (2, 2)).shape == (1, 1, 2, 2)  # numpy.float
x = chainer.Variable(np.ones((4, 4), np.float32))
y = F.as_strided(x, (2, 2), (1, 2), 0)  # numpy.sctypes, backwards too
F.sum(y).backward()
assert float(x.grad.sum()) == 4.0
compat.install()
assert before == (np.sctypes, sys.modules["chainer._environment_check"])
"""


def test_chainer_works_with_what_compat_adds_and_what_is_there_stays() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", COMPAT],
        cwd=Path(compat.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("flags", "ranks", "gpus", "words"),
    [
        ("", 64, NO_GPU, None),
        ("--communicator naive", 64, NO_GPU, None),
        ("--gpu", 2, TWO, None),
        ("--gpu --communicator naive", 2, TWO, None),
        ("--gpu --communicator flat", 2, HostGpus(2), None),
        ("--gpu --fp16-gradients --double-buffering", 2, TWO, None),
        ("--gpu", 1, NO_GPU, "--gpu: no usable GPU (CuPy is not installed)"),
        ("--communicator flat", 1, NO_GPU, "--communicator flat: it exchanges GPU memory"),
        ("--communicator flat", 1, TWO, "needs CuPy and --gpu"),
        ("--gpu", 3, TWO, "--gpu: 3 ranks on a host with 2 GPUs"),
        ("--gpu", 1, HostGpus(2), "--communicator pure_nccl: this CuPy has no NCCL 2"),
        ("--gpu --communicator non_cuda_aware", 1, HostGpus(2), "has no NCCL 2"),
        ("--fp16-gradients", 1, NO_GPU, "--fp16-gradients: needs --communicator pure_nccl"),
        ("--gpu --communicator flat --double-buffering", 1, TWO, "--double-buffering: needs"),
    ],
)
def test_what_a_host_cannot_serve_is_refused(
    flags: str, ranks: int, gpus: HostGpus, words: str | None
) -> None:
    reason = refusal(chainer_mnist.parse(flags.split()), ranks, gpus)
    assert reason is None if words is None else words in str(reason)
    assert "\n" not in str(reason)


@pytest.mark.parametrize(
    ("available", "nccl_version", "expected"),
    [
        (True, 22304, HostGpus(4, nccl=True)),
        (True, 1305, HostGpus(4)),
        (True, None, HostGpus(4)),
        (False, 22304, HostGpus(missing="CuPy finds no CUDA device")),
        (None, None, NO_GPU),
    ],
)
def test_cupy_is_asked(
    monkeypatch: pytest.MonkeyPatch, available: bool | None, nccl_version: int, expected: HostGpus
) -> None:
    cupy, cuda, nccl = (ModuleType(name) for name in ("cupy", "cupy.cuda", "cupy.cuda.nccl"))
    runtime = SimpleNamespace(getDeviceCount=lambda: 4)
    vars(cupy).update(cuda=cuda)
    vars(cuda).update(is_available=lambda: available, runtime=runtime)
    if nccl_version is not None:
        vars(nccl).update(get_build_version=lambda: nccl_version)
    for module in (cupy, cuda, nccl):  # None: its import fails
        found = None if available is None else module
        monkeypatch.setitem(sys.modules, module.__name__, found)
    assert find_gpus() == expected


def fired(period: tuple[float, str], length: Length, per_epoch: int, more: int = 0) -> list[int]:
    """The iterations in which a trigger fires in a run, which goes on for ``more`` of them."""
    end = length.number * (per_epoch if length.unit == "epoch" else 1)
    fires, trainer = interval_or_end(period, length), SimpleNamespace()
    hits = []
    for done in range(1, end + more + 1):
        trainer.updater = SimpleNamespace(iteration=done, epoch_detail=done / per_epoch)
        hits += [done] * fires(trainer)
    assert end in hits
    return hits


@pytest.mark.parametrize(
    ("period", "length", "hits"),
    [
        ((1, "epoch"), Length(25, "iteration"), [25, 75]),  # shorter than an epoch
        ((1, "epoch"), Length(1, "epoch"), [75]),
        ((30, "iteration"), Length(40, "iteration"), [30, 40, 60]),
    ],
)
def test_the_end_fires_once_though_the_run_goes_on(
    period: tuple[float, str], length: Length, hits: list[int]
) -> None:
    assert [hit for hit in fired(period, length, 75, more=50) if hit <= 75] == hits


def test_an_order_tells_its_epoch_by_its_numbers() -> None:
    one = next_order(10, 1, 2, 4, np.arange(10))
    two = next_order(10, 1, 2, 4, one, 5)
    assert sorted(one // 10) == [1] * 5 and sorted(two // 10) == [2] * 5
    assert not np.array_equal(one % 10, two % 10)
    for order in (np.arange(10), one):  # without a seed, for validation
        assert next_order(10, 1, 2, None, order).tolist() == [1, 3, 5, 7, 9]


@pytest.mark.parametrize("arch", ["small", "resnet50"])
def test_a_network_scores_each_class_and_an_update_changes_its_weights(arch: str) -> None:
    import chainer
    from chainer.links import Classifier

    np.random.seed(0)
    model: Any = Classifier(chainer_imagenet.network(arch, 3))
    images = np.random.default_rng(0).random((2, 3, 64, 64), np.float32)
    labels = np.array([0, 2], np.int32)
    assert model.predictor(images).shape == (2, 3)
    optimizer = chainer.optimizers.MomentumSGD(0.01).setup(model)
    optimizer.update(model, images, labels)
    before = {name: param.array.copy() for name, param in model.namedparams() if param.ndim > 1}
    optimizer.update(model, images, labels)
    assert np.isfinite(model.loss.array)
    after = dict(model.namedparams())
    assert all(not np.array_equal(after[name].array, array) for name, array in before.items())
