from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainer_imagenet
import compat
from chainer_imagenet import next_order
from tests.light_trainer import captured

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
    argv = [sys.executable, "-W", "error::UserWarning", "-c", COMPAT]
    done = captured(argv, Path(compat.__file__).parent, os.environ)
    assert (done.returncode, done.stderr) == (0, "")


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
