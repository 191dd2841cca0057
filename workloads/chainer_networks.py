"""The networks of the ChainerMN image trainer: one for CPUs, and ResNet-50."""

from __future__ import annotations

from functools import partial
from typing import Any


def make(arch: str, classes: int) -> Any:
    """A network of images (n, 3, height, width) with ``classes`` outputs."""
    return {"small": small, "resnet50": resnet50}[arch](classes)


def small(classes: int) -> Any:
    """Three convolutions: an image of 64 x 64 costs a core as much as decoding it does."""
    from chainer import Sequential
    from chainer.functions import max_pooling_2d, mean, relu
    from chainer.links import Convolution2D, Linear

    return Sequential(
        Convolution2D(3, 16, ksize=5, stride=2, pad=2),
        relu,
        partial(max_pooling_2d, ksize=2),
        Convolution2D(16, 32, ksize=3, pad=1),
        relu,
        partial(max_pooling_2d, ksize=2),
        Convolution2D(32, 64, ksize=3, pad=1),
        relu,
        partial(mean, axis=(2, 3)),
        Linear(64, classes),
    )


def resnet50(classes: int) -> Any:
    """He et al. 2015 in Chainer's own version, without weights learned elsewhere."""
    from chainer.links import Linear
    from chainer.links.model.vision.resnet import ResNet50Layers

    class Scores(ResNet50Layers):  # type: ignore[misc]  # Chainer has no types
        def forward(self, x: Any) -> Any:
            """The last layer's values, where the original gives a dictionary of probabilities."""
            return super().forward(x, layers=["fc6"])["fc6"]

    network = Scores(pretrained_model=None)
    del network.fc6  # of ImageNet's 1000 classes
    with network.init_scope():
        network.fc6 = Linear(2048, classes)
    return network
