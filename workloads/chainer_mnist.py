"""The ChainerMN MNIST trainer: a multi-layer perceptron, trained by all ranks together.

    mpirun -n 8 python -m mpi4py workloads/chainer_mnist.py --benchmark --out result

Start it with `python -m mpi4py`: then a rank that fails ends the whole job. Otherwise the others
would wait for it for ever. It needs chainer 7.8.1 and mpi4py.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chainer_training
import compat
import mnist_data
from mnist_data import Mnist
from trainer_options import TrainerParser, number

if TYPE_CHECKING:
    from mpi4py import MPI

# At the top: a worker that is not forked imports this file, and then Chainer's dataset.
compat.install()

NAME = Path(__file__).name

#: Of a benchmark run: with 8 ranks on 2 cores a well-set launch takes about 5 s.
ITERATIONS = 25


def main(argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 if that is refused."""
    return chainer_training.main(NAME, argv, parse=parse, load=load, train=train)


def parse(argv: Sequence[str]) -> Namespace:
    """Read a command line; raises ``WorkloadError``."""
    # The epochs are those of ChainerMN's own example.
    parser = TrainerParser(NAME, str(__doc__), batchsize=100, iterations=ITERATIONS, epochs=20)
    chainer_training.add_chainer(parser)
    number(parser, "-u", "--unit", default=1000, help="units of each hidden layer")
    options = parser.read(argv)
    chainer_training.complete(options)
    return options


def load(options: Namespace) -> Mnist:
    """Load the data, on rank 0, which prints its source."""
    from chainer.dataset import get_dataset_root

    data = mnist_data.load(Path(get_dataset_root()), options.seed)
    print(f"data: {data.source}, {len(data.train.labels)} + {len(data.test.labels)} examples")
    return data


def train(world: MPI.Intracomm, options: Namespace, data: Mnist | None) -> None:
    """Scatter the data over the ranks, train, and evaluate."""
    import chainermn
    from chainer.datasets import TupleDataset
    from chainer.optimizers import Adam

    comm = chainer_training.communicator(world, options)
    parts = (data.train, data.test) if data is not None else (None, None)
    sets = (part and TupleDataset(part.images, part.labels) for part in parts)
    own_train, own_test = (
        mnist_data.own_examples(
            chainermn.scatter_dataset(each, comm, shuffle=True, seed=options.seed)
        )
        for each in sets
    )
    iterator = partial(chainer_training.iterator, options, batchsize=options.batchsize)
    chainer_training.run(
        comm,
        options,
        iterators=(iterator(own_train), iterator(own_test, repeat=False, shuffle=False)),
        network=partial(perceptron, options.unit),
        rule=Adam(),
        what=f"unit {options.unit}",
    )


def perceptron(units: int) -> Any:
    """Return the model of the MNIST example: 784 inputs, two hidden layers, 10 outputs."""
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
