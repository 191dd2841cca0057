"""The ChainerMN image trainer: a convolutional network, fed by OpenCV in loader workers.

    mpirun -n 4 python -m mpi4py workloads/chainer_imagenet.py --benchmark --out result

Each iterator has worker processes that decode and augment images: files below --data, or JPEG
images that are made up. Broken files are named, counted and left out. Start it with
`python -m mpi4py`: a rank that fails then ends the whole job, where the others would wait for it
for ever. It needs chainer 7.8.1, mpi4py and opencv-python-headless.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not (TYPE_CHECKING or __package__):  # run by its path: this folder is on sys.path
    import needs

    needs.check(__file__)

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING or __package__:
    from . import chainer_networks, chainer_training, compat, image_data
    from .chainer_options import ImagenetOptions, parse_imagenet
    from .image_files import Data, ImagesError
    from .images import Images, rank_order
    from .skipped_images import Skipped, summary
else:  # run by its path: this folder is on sys.path
    import chainer_networks
    import chainer_training
    import compat
    import image_data
    from chainer_options import ImagenetOptions, parse_imagenet
    from image_files import Data, ImagesError
    from images import Images, rank_order
    from skipped_images import Skipped, summary

if TYPE_CHECKING:
    from mpi4py import MPI

# At the top: a worker that is not forked imports this file, and then Chainer's iterator.
compat.install()

NAME = Path(__file__).name

#: Of ChainerMN's ImageNet example.
LEARNING_RATE = 0.01


def main(argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 where that is refused."""
    program = chainer_training.Program(
        name=NAME,
        parse=partial(parse_imagenet, NAME, str(__doc__)),
        load=data_of_root,
        train=train,
        refusals=(ImagesError,),
    )
    return chainer_training.main(program, argv)


def data_of_root(options: ImagenetOptions, rank: int) -> Data | None:
    """The images on rank 0, which names their source; ``None`` elsewhere."""
    if rank != 0:
        return None
    data = image_data.load(options.images, options.seed)
    print(f"data: {data.words}, {len(data.train.labels)} + {len(data.test.labels)} images")
    return data


def train(world: MPI.Intracomm, options: ImagenetOptions, data: Data | None) -> None:
    """Share the images among the ranks, train, evaluate, and say which were left out."""
    from chainer.optimizers import MomentumSGD

    given: Data = world.bcast(data)
    comm = chainer_training.communicator(world, options)
    skipped = Skipped(options.out / "skipped" / f"rank-{world.rank}")
    skipped.clear()
    network = partial(chainer_networks.make, options.images.arch, given.classes)
    chainer_training.run(
        comm,
        options,
        iterators(comm, options, given, skipped),
        chainer_training.multi_node_optimizer(comm, options, network, MomentumSGD(LEARNING_RATE)),
        f"{options.images.arch}, crop {options.images.crop}",
    )
    left_out = summary(world.allgather(skipped.read()))
    if world.rank == 0 and left_out is not None:
        print(left_out, flush=True)


def iterators(comm: Any, options: ImagenetOptions, data: Data, skipped: Skipped) -> tuple[Any, Any]:
    """This rank's iterators over the training and over the validation images."""
    crop, seed = options.images.crop, options.seed
    augmented = Images(data.train, crop, seed=seed, skipped=skipped)
    plain = Images(data.test, crop, augment=False, skipped=skipped)
    # With the size of an example given, Chainer makes none itself to measure it: OpenCV's
    # threads start in the workers, and not before a fork.
    iterator = partial(
        chainer_training.iterator, options, shared_mem=augmented.example_bytes, shuffle=None
    )
    own = partial(Order, rank=comm.rank, ranks=comm.size)
    return (
        iterator(augmented, options.batchsize, order_sampler=own(len(augmented), seed=seed)),
        iterator(
            plain,
            options.images.val_batchsize,
            order_sampler=own(len(plain), seed=None),
            repeat=False,
        ),
    )


class Order:
    """Chainer's order sampler: this rank's examples of the next epoch.

    It keeps no state: the numbers of an order tell their epoch. ``seed`` of ``None`` is the
    same order of the same examples in every epoch.
    """

    def __init__(self, length: int, *, rank: int, ranks: int, seed: int | None) -> None:
        self._length = length
        self._share = partial(rank_order, length, rank=rank, ranks=ranks, seed=seed)
        self._shuffles = seed is not None

    def __call__(self, order: NDArray[np.intp], position: int) -> NDArray[np.intp]:  # noqa: ARG002
        """The order that follows ``order``, which at first is 0, 1, 2 …."""
        epoch = int(order.max()) // self._length + 1 if self._shuffles else 0
        return self._share(epoch=epoch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
