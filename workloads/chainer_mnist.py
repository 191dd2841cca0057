"""The ChainerMN MNIST trainer: a multi-layer perceptron, trained by all ranks together.

    mpirun -n 8 python -m mpi4py workloads/chainer_mnist.py --benchmark --out result

Start it with `python -m mpi4py`: a rank that fails then ends the whole job, where the others
would wait for it for ever. It needs chainer 7.8.1 and mpi4py.
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

if TYPE_CHECKING or __package__:
    from . import chainer_training, compat, mnist_data
    from .chainer_options import MnistOptions, parse_mnist
else:  # run by its path: this folder is on sys.path
    import chainer_training
    import compat
    import mnist_data
    from chainer_options import MnistOptions, parse_mnist

if TYPE_CHECKING:
    from mpi4py import MPI

# At the top: a worker that is not forked imports this file, and then Chainer's dataset.
compat.install()

NAME = Path(__file__).name


def main(argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 where that is refused."""
    program = chainer_training.Program(
        name=NAME,
        parse=partial(parse_mnist, NAME, str(__doc__)),
        load=data_of_root,
        train=train,
        refusals=(mnist_data.DataError,),
    )
    return chainer_training.main(program, argv)


def data_of_root(options: MnistOptions, rank: int) -> tuple[Any, Any]:
    """Training and test set on rank 0, which names their source; ``None`` elsewhere."""
    if rank != 0:
        return None, None
    from chainer.dataset import get_dataset_root
    from chainer.datasets import TupleDataset

    data = mnist_data.load(Path(get_dataset_root()), options.seed)
    print(f"data: {data.source}, {len(data.train.labels)} + {len(data.test.labels)} examples")
    return (
        TupleDataset(data.train.images, data.train.labels),
        TupleDataset(data.test.images, data.test.labels),
    )


def train(world: MPI.Intracomm, options: MnistOptions, data: tuple[Any, Any]) -> None:
    """Scatter the data over the ranks, train, and evaluate."""
    import chainermn
    from chainer.optimizers import Adam

    comm = chainer_training.communicator(world, options)
    sets = [chainermn.scatter_dataset(part, comm, shuffle=True, seed=options.seed) for part in data]
    own_train, own_test = map(mnist_data.own_examples, sets)
    iterator = partial(chainer_training.iterator, options, batchsize=options.batchsize)
    chainer_training.run(
        comm,
        options,
        (iterator(own_train), iterator(own_test, repeat=False, shuffle=False)),
        chainer_training.multi_node_optimizer(
            comm, options, partial(perceptron, options.unit), Adam()
        ),
        f"unit {options.unit}",
    )


def perceptron(units: int) -> Any:
    """The model of the MNIST example: 784 inputs, two hidden layers, 10 outputs."""
    from chainer import Sequential
    from chainer.functions import relu
    from chainer.links import Linear

    return Sequential(
        Linear(mnist_data.PIXELS, units),
        relu,
        Linear(units, units),
        relu,
        Linear(units, mnist_data.CLASSES),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
