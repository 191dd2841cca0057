"""The ChainerMN MNIST trainer: a multi-layer perceptron, trained by all ranks together.

    mpirun -n 8 python -m mpi4py workloads/chainer_mnist.py --benchmark --out result

Start it with `python -m mpi4py`: a rank that fails then ends the whole job, where the others
would wait for it for ever. It needs chainer 7.8.1 and mpi4py.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from . import compat, host, mnist_data, ranks, schedule
    from . import trainer_options as flags
else:  # run by its path: this folder is on sys.path
    import compat
    import host
    import mnist_data
    import ranks
    import schedule
    import trainer_options as flags

if TYPE_CHECKING:
    from mpi4py import MPI

# At the top: a worker that is not forked imports this file, and then Chainer's dataset.
compat.install()

NAME = Path(__file__).name


def main(argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 where that is refused."""
    if {"-h", "--help"} & set(argv):
        flags.parse(NAME, str(__doc__), argv)
    # Not at the top: a worker that is not forked imports this file, and must not start MPI.
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    shared = world.Split_type(MPI.COMM_TYPE_SHARED)
    refusals = (flags.WorkloadError, mnist_data.DataError)
    together = partial(ranks.together, world, refusals=refusals, prog=NAME)
    try:
        options = together(lambda: checked_options(argv, world.rank, shared.size))
        data = together(lambda: data_of_root(options, world.rank))
    except ranks.RefusedError:
        # Or mpi4py would abort the job, and the MPI bury the message under its own.
        MPI.Finalize()
        return 2
    if options.start_method is not None:
        multiprocessing.set_start_method(options.start_method)
    with ranks.profiled(options.cprofile, world.rank):
        train(world, options, data)
    return 0


def checked_options(argv: Sequence[str], rank: int, ranks_here: int) -> flags.TrainerOptions:
    """Read the flags, hold them against this host, make the folders (rank 0)."""
    options = flags.parse(NAME, str(__doc__), argv)
    gpus = host.find_gpus() if options.gpu else host.Gpus()
    reason = host.refusal(options, ranks_here, gpus)
    for flag, folder in (("--out", options.out), ("--cprofile", options.cprofile)):
        if rank == 0 and folder is not None:
            reason = reason or host.unwritable(folder, flag)
    if reason is not None:
        raise flags.WorkloadError(reason)
    return options


def data_of_root(options: flags.TrainerOptions, rank: int) -> tuple[Any, Any]:
    """Training and test set on rank 0, which names their source; ``None`` elsewhere."""
    if rank != 0:
        return None, None
    from chainer.dataset import get_dataset_root
    from chainer.datasets import TupleDataset

    data = mnist_data.load(Path(get_dataset_root()), options.seed)
    print(f"data: {data.source}, {len(data.train.labels)} + {len(data.test.labels)} examples")
    return tuple(TupleDataset(part.images, part.labels) for part in (data.train, data.test))


def train(world: MPI.Intracomm, options: flags.TrainerOptions, data: tuple[Any, Any]) -> None:
    """Scatter the data over the ranks, train, and evaluate."""
    import chainermn

    exchange: dict[str, Any] = {"allreduce_grad_dtype": "float16"} if options.fp16_gradients else {}
    comm = chainermn.create_communicator(options.communicator, mpi_comm=world, **exchange)
    sets = [chainermn.scatter_dataset(part, comm, shuffle=True, seed=options.seed) for part in data]
    trainer = build_trainer(comm, options, *map(mnist_data.own_examples, sets))
    if comm.rank == 0:
        print(summary(options, comm.size), flush=True)
    trainer.run()
    if comm.rank == 0:
        done, elapsed_s = trainer.updater.iteration, trainer.elapsed_time
        print(f"done: {done} iterations in {elapsed_s:.3f} s", flush=True)


def build_trainer(comm: Any, options: flags.TrainerOptions, own_train: Any, own_test: Any) -> Any:
    """A trainer with all its extensions; both sets are this rank's own share.

    The Evaluator runs once an epoch, as in ChainerMN's example, and at the end: a run shorter
    than an epoch has its figures, and the cost of the test iterator, too.
    """
    import chainermn
    from chainer.training import StandardUpdater, Trainer, extensions

    device, optimizer = build_optimizer(comm, options)
    length = (options.length.count, options.length.unit)
    updater = StandardUpdater(iterator(options, own_train), optimizer, device=device)
    trainer = Trainer(updater, length, out=str(options.out))
    evaluator = extensions.Evaluator(
        iterator(options, own_test, repeat=False, shuffle=False), optimizer.target, device=device
    )
    trainer.extend(
        chainermn.create_multi_node_evaluator(evaluator, comm),
        trigger=interval_or_end((1, "epoch"), length),
    )
    if comm.rank == 0:
        period = schedule.log_interval(*length, options.log_writes)
        # The inner trigger writes; `extend(LogReport(), trigger=...)` would leave it at an
        # epoch, and a shorter run without a log.
        trainer.extend(
            extensions.LogReport(
                trigger=interval_or_end(period, length),
                postprocess=lambda entry: entry.update(epoch_detail=updater.epoch_detail),
            )
        )
        if not options.benchmark:
            extend_for_people(trainer)
    return trainer


def build_optimizer(comm: Any, options: flags.TrainerOptions) -> tuple[Any, Any]:
    """This rank's device, and the multi-node Adam with the model on that device."""
    import chainer
    import chainermn
    import numpy as np
    from chainer.links import Classifier

    # Each rank draws its own order; the weights are rank 0's, from the first update on.
    seed = options.seed + comm.rank
    random.seed(seed)
    np.random.seed(seed)
    device = chainer.get_device(f"@cupy:{comm.intra_rank}" if options.gpu else "@numpy")
    device.use()
    model = Classifier(perceptron(options.unit))
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(
        chainer.optimizers.Adam(), comm, double_buffering=options.double_buffering
    )
    optimizer.setup(model)
    return device, optimizer


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


def iterator(options: flags.TrainerOptions, dataset: Any, **how: bool) -> Any:
    """The training iterator, or the test iterator; ``loaderjob`` of ``None`` is Chainer's."""
    from chainer.iterators import MultiprocessIterator

    return MultiprocessIterator(
        dataset,
        options.batchsize,
        n_processes=options.loaderjob,
        n_prefetch=options.prefetch,
        **how,
    )


def interval_or_end(period: tuple[float, str], length: tuple[int, str]) -> schedule.IntervalOrEnd:
    """A trigger for an extension of a run of this length."""
    from chainer.training import get_trigger

    return schedule.IntervalOrEnd(get_trigger(period), *length)


def extend_for_people(trainer: Any) -> None:
    """What ChainerMN's example has besides: the graph, a table, a progress bar."""
    from chainer.training import extensions

    trainer.extend(extensions.DumpGraph("main/loss"))
    trainer.extend(
        extensions.PrintReport(
            ["epoch", "iteration"]
            + [
                f"{prefix}main/{what}"
                for what in ("loss", "accuracy")
                for prefix in ("", "validation/")
            ]
            + ["elapsed_time"]
        )
    )
    if sys.stdout.isatty():
        trainer.extend(extensions.ProgressBar())


def summary(options: flags.TrainerOptions, ranks: int) -> str:
    """What is run, in one line."""
    loaders = options.loaderjob or f"{multiprocessing.cpu_count()} (default)"
    return (
        f"run: {options.length}, {ranks} ranks, batch {options.batchsize}, unit {options.unit}, "
        f"{'GPU' if options.gpu else 'CPU'}, {options.communicator}, loader jobs {loaders}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
