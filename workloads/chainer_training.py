"""What the ChainerMN trainers share: how their ranks start, the optimizer, the extensions."""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING or __package__:
    from . import host, ranks, retuned, schedule
    from . import trainer_options as flags
    from .chainer_options import ChainerOptions
else:  # run by its path: this folder is on sys.path
    import host
    import ranks
    import retuned
    import schedule
    import trainer_options as flags
    from chainer_options import ChainerOptions

if TYPE_CHECKING:
    from mpi4py import MPI

O = TypeVar("O", bound=ChainerOptions)  # noqa: E741
D = TypeVar("D")


@dataclass(frozen=True)
class Program(Generic[O, D]):
    """What one trainer is.

    Attributes:
        name: Of its file, for messages.
        parse: Reads the command line.
        load: The data, on a rank of this number; no communication in it.
        train: What all ranks do then.
        refusals: What ``load`` raises with a text for the user.
    """

    name: str
    parse: Callable[[Sequence[str]], O]
    load: Callable[[O, int], D]
    train: Callable[[MPI.Intracomm, O, D], None]
    refusals: tuple[type[Exception], ...]


def main(program: Program[O, D], argv: Sequence[str]) -> int:
    """Train as ``argv`` says. The exit code is 2 where that is refused."""
    if {"-h", "--help"} & set(argv):
        program.parse(argv)
    # Not at the top: a worker that is not forked imports this file, and must not start MPI.
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    shared = world.Split_type(MPI.COMM_TYPE_SHARED)
    refusals: tuple[type[Exception], ...] = (flags.WorkloadError, *program.refusals)
    together = partial(ranks.together, world, refusals=refusals, prog=program.name)
    try:
        options = together(lambda: checked(program.parse(argv), world.rank, shared.size))
        data = together(lambda: program.load(options, world.rank))
    except ranks.RefusedError:
        # Or mpi4py would abort the job, and the MPI bury the message under its own.
        MPI.Finalize()
        return 2
    if options.start_method is not None:
        multiprocessing.set_start_method(options.start_method)
    # Each rank draws its own order; the weights are rank 0's, from the first update on.
    random.seed(options.seed + world.rank)
    np.random.seed(options.seed + world.rank)
    ranks.end_with_threads(world, refusals=program.refusals, prog=program.name)
    with ranks.profiled(options.cprofile, world.rank):
        program.train(world, options, data)
    return 0


def checked(options: O, rank: int, ranks_here: int) -> O:
    """Hold the options against this host, and make the folders (rank 0)."""
    gpus = host.find_gpus() if options.gpu else host.Gpus()
    reason = host.refusal(options, ranks_here, gpus)
    for flag, folder in (("--out", options.out), ("--cprofile", options.cprofile)):
        if rank == 0 and folder is not None:
            reason = reason or host.unwritable(folder, flag)
    if reason is not None:
        raise flags.WorkloadError(reason)
    return options


def communicator(world: MPI.Intracomm, options: ChainerOptions) -> Any:
    """ChainerMN's communicator over all ranks."""
    import chainermn

    exchange: dict[str, Any] = {"allreduce_grad_dtype": "float16"} if options.fp16_gradients else {}
    return chainermn.create_communicator(options.communicator, mpi_comm=world, **exchange)


def run(
    comm: Any,
    options: ChainerOptions,
    iterators: tuple[Any, Any],
    optimizer: tuple[Any, Any],
    what: str,
) -> None:
    """Train and evaluate; rank 0 says what, and how long it took.

    Args:
        comm: ChainerMN's communicator.
        options: How long, and where the log goes.
        iterators: Over this rank's own share of the training and of the test examples.
        optimizer: What :func:`multi_node_optimizer` gave.
        what: The trainer's own part of the line.
    """
    trainer = build_trainer(comm, options, iterators, *optimizer)
    if comm.rank == 0:
        print(summary(options, comm.size, what), flush=True)
    trainer.run()
    if comm.rank == 0:
        done, elapsed_s = trainer.updater.iteration, trainer.elapsed_time
        print(f"done: {done} iterations in {elapsed_s:.3f} s", flush=True)


def build_trainer(
    comm: Any, options: ChainerOptions, iterators: tuple[Any, Any], device: Any, optimizer: Any
) -> Any:
    """A trainer with all its extensions.

    The Evaluator runs once an epoch, as in ChainerMN's examples, and at the end: a run shorter
    than an epoch has its figures, and the cost of the test iterator, too.
    """
    import chainermn
    from chainer.training import StandardUpdater, Trainer, extensions

    length = (options.length.count, options.length.unit)
    train, test = iterators
    updater = StandardUpdater(train, optimizer, device=device)
    trainer = Trainer(updater, length, out=str(options.out))
    evaluator = extensions.Evaluator(test, optimizer.target, device=device)
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
    retuned.chainer(
        trainer, lambda name: communicator(comm.mpi_comm, replace(options, communicator=name))
    )
    return trainer


def multi_node_optimizer(
    comm: Any, options: ChainerOptions, network: Callable[[], Any], rule: Any
) -> tuple[Any, Any]:
    """This rank's device, and the multi-node optimizer with the model on that device.

    Args:
        comm: ChainerMN's communicator.
        options: Whether to train on a GPU.
        network: Makes the network.
        rule: Chainer's optimizer.
    """
    import chainer
    import chainermn
    from chainer.links import Classifier

    device = chainer.get_device(f"@cupy:{comm.intra_rank}" if options.gpu else "@numpy")
    device.use()
    model = Classifier(network())
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(
        rule, comm, double_buffering=options.double_buffering
    )
    optimizer.setup(model)
    return device, optimizer


def iterator(options: ChainerOptions, dataset: Any, batchsize: int, **how: Any) -> Any:
    """An iterator with the workers asked for; ``loaderjob`` of ``None`` is Chainer's."""
    from chainer.iterators import MultiprocessIterator

    return MultiprocessIterator(
        dataset, batchsize, n_processes=options.loaderjob, n_prefetch=options.prefetch, **how
    )


def interval_or_end(period: tuple[float, str], length: tuple[int, str]) -> schedule.IntervalOrEnd:
    """A trigger for an extension of a run of this length."""
    from chainer.training import get_trigger

    return schedule.IntervalOrEnd(get_trigger(period), *length)


def extend_for_people(trainer: Any) -> None:
    """What ChainerMN's examples have besides: the graph, a table, a progress bar."""
    from chainer.training import extensions

    trainer.extend(extensions.DumpGraph("main/loss"))
    figures = [
        f"{prefix}main/{what}" for what in ("loss", "accuracy") for prefix in ("", "validation/")
    ]
    trainer.extend(extensions.PrintReport(["epoch", "iteration", *figures, "elapsed_time"]))
    if sys.stdout.isatty():
        trainer.extend(extensions.ProgressBar())


def summary(options: ChainerOptions, size: int, what: str) -> str:
    """What is run, in one line."""
    loaders = options.loaderjob or f"{multiprocessing.cpu_count()} (default)"
    return (
        f"run: {options.length}, {size} ranks, batch {options.batchsize}, {what}, "
        f"{'GPU' if options.gpu else 'CPU'}, {options.communicator}, loader jobs {loaders}"
    )
