"""The ChainerMN image trainer: a convolutional network, fed by OpenCV in loader workers.

    mpirun -n 4 python -m mpi4py workloads/chainer_imagenet.py --benchmark --out result

Each iterator has worker processes that decode and augment images: files below --data, or synthetic
JPEG images. Start it with `python -m mpi4py`: then a rank that fails ends the whole job. Otherwise
the others would wait for it for ever. It needs chainer 7.8.1, mpi4py and opencv-python-headless.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import chainer_training
import compat
import images
import trainer_options
from image_files import ImageData
from images import Images, rank_order
from trainer_options import TrainerParser

if TYPE_CHECKING:
    from mpi4py import MPI

# At the top: a worker that is not forked imports this file, and then Chainer's iterator.
compat.install()

NAME = Path(__file__).name

#: Of ChainerMN's ImageNet example.
LEARNING_RATE = 0.01


def main(argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 if that is refused."""
    return chainer_training.main(NAME, argv, parse=parse, load=load, train=train)


def parse(argv: Sequence[str]) -> Namespace:
    """Read a command line; raises ``WorkloadError``."""
    parser = TrainerParser(NAME, str(__doc__), **trainer_options.IMAGE_DEFAULTS)
    chainer_training.add_chainer(parser)
    trainer_options.add_images(parser)
    options = parser.read(argv)
    trainer_options.complete(options)
    chainer_training.complete(options)
    return options


def load(options: Namespace) -> ImageData:
    """Load the images, on rank 0, which prints their source."""
    data = images.load(options)
    print(data)
    return data


def train(world: MPI.Intracomm, options: Namespace, data: ImageData | None) -> None:
    """Share the images among the ranks, train, and evaluate."""
    from chainer.optimizers import MomentumSGD

    given: ImageData = world.bcast(data)
    comm = chainer_training.communicator(world, options)
    chainer_training.run(
        comm,
        options,
        iterators=iterators(comm, options, given),
        network=partial(network, options.arch, given.classes),
        rule=MomentumSGD(LEARNING_RATE),
        what=f"{options.arch}, crop {options.crop}",
    )


def iterators(comm: Any, options: Namespace, data: ImageData) -> tuple[Any, Any]:
    """Return this rank's iterators over the training and over the validation images."""
    augmented = Images(data.train, options.crop, seed=options.seed)
    plain = Images(data.test, options.crop, augment=False)
    # With the size of an example given, Chainer makes none itself to measure it: OpenCV's
    # threads start in the workers, and not before a fork.
    iterator = partial(
        chainer_training.iterator, options, shared_mem=augmented.example_bytes, shuffle=None
    )
    order, in_order = (
        partial(next_order, len(each), comm.rank, comm.size, seed)
        for each, seed in ((augmented, options.seed), (plain, None))
    )
    return (
        iterator(augmented, options.batchsize, order_sampler=order),
        iterator(plain, options.val_batchsize, order_sampler=in_order, repeat=False),
    )


def next_order(
    length: int, rank: int, size: int, seed: int | None, order: NDArray[np.intp], _position: int = 0
) -> NDArray[np.intp]:
    """Chainer's order sampler: a rank's examples of the epoch that follows ``order``.

    The numbers of an order tell their epoch; at first they are 0, 1, 2 …. ``seed`` of ``None`` is
    the same order of the same examples in every epoch.
    """
    epoch = 0 if seed is None else int(order.max()) // length + 1
    return rank_order(length, rank=rank, ranks=size, seed=seed, epoch=epoch)


def network(arch: str, classes: int) -> Any:
    """Return a network of images (n, 3, height, width) with ``classes`` outputs."""
    return small(classes) if arch == "small" else resnet50(classes)


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
            """Return the last layer's values instead of a dictionary of probabilities."""
            return super().forward(x, layers=["fc6"])["fc6"]

    made = Scores(pretrained_model=None)
    del made.fc6  # of ImageNet's 1000 classes
    with made.init_scope():
        made.fc6 = Linear(2048, classes)
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
