"""The networks of the image trainer, and the order of its examples."""

from __future__ import annotations

import numpy as np
import pytest

from workloads import chainer_networks, compat
from workloads.chainer_imagenet import Order

compat.install()


@pytest.mark.parametrize("arch", ["small", "resnet50"])
def test_a_network_scores_each_class_and_an_update_changes_its_weights(arch: str) -> None:
    import chainer
    from chainer.links import Classifier

    np.random.seed(0)
    model = Classifier(chainer_networks.make(arch, classes=3))
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


def test_validation_is_the_same_in_every_epoch() -> None:
    order = Order(10, rank=1, ranks=2, seed=None)
    assert order(np.arange(10), 0).tolist() == [1, 3, 5, 7, 9]
    assert order(order(np.arange(10), 0), 5).tolist() == [1, 3, 5, 7, 9]
