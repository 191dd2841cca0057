"""What the ChainerMN trainers share: their flags, how their ranks start, the trainer's parts."""

from __future__ import annotations

import io
import multiprocessing
import random
import sys
import zipfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import ranks
from trainer_options import Length, TrainerParser, WorkloadError, choice, log_interval, number

if TYPE_CHECKING:
    from mpi4py import MPI

COMMUNICATORS = ("naive", "flat", "non_cuda_aware", "pure_nccl", "dummy")


D = TypeVar("D")


def add_chainer(parser: TrainerParser) -> None:
    """Add the flags of the ChainerMN trainers."""
    choice(parser, "--communicator", COMMUNICATORS, "ChainerMN's", "naive; with --gpu pure_nccl")
    text = "exchange gradients in half precision (pure_nccl)"
    parser.add_argument("--fp16-gradients", action="store_true", help=text)
    text = "exchange gradients while the next ones are computed (pure_nccl)"
    parser.add_argument("--double-buffering", action="store_true", help=text)
    text = "iterations between snapshots in the folder of the log [an epoch; --benchmark: none]"
    number(parser, "--snapshot-every", help=text)
    text = "go on from this snapshot; rank 0 reads it"
    parser.add_argument("--resume", type=Path, metavar="FILE", help=text)


def complete(options: Namespace) -> None:
    """Put in what stands for a flag that was not given; refuse an exchange that there is not."""
    name = options.communicator = options.communicator or ("pure_nccl" if options.gpu else "naive")
    if not options.gpu and name != "naive":
        raise WorkloadError(f"--communicator {name}: it exchanges GPU memory and needs --gpu")
    for flag, is_set in (
        ("--fp16-gradients", options.fp16_gradients),
        ("--double-buffering", options.double_buffering),
    ):
        if is_set and name != "pure_nccl":
            raise WorkloadError(f"{flag}: needs --communicator pure_nccl and --gpu, not {name}")


def main(
    prog: str,
    argv: Sequence[str],
    *,
    parse: Callable[[Sequence[str]], Namespace],
    load: Callable[[Namespace], D],
    train: Callable[[MPI.Intracomm, Namespace, D | None], None],
) -> int:
    """Train as ``argv`` says; 2 if that is refused.

    ``prog`` is the trainer's name, for messages. Rank 0 loads the data; then all ranks train, with
    ``None`` for the data on other ranks.
    """
    if {"-h", "--help"} & set(argv):
        parse(argv)
    # Not at the top: a worker that is not forked imports this file, and must not start MPI.
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def checked() -> Namespace:
        options = parse(argv)
        ranks.make_folder(options, world.rank)
        if world.rank == 0 and options.resume and not zipfile.is_zipfile(options.resume):
            raise WorkloadError(f"--resume {options.resume}: that is no snapshot")
        return options

    try:
        options = ranks.together(world, checked, prog)
        data = ranks.together(world, lambda: load(options) if world.rank == 0 else None, prog)
    except ranks.JobRefusedError:
        # Or mpi4py would abort the job, and the MPI bury the message under its own.
        MPI.Finalize()
        return 2
    if options.start_method is not None:
        multiprocessing.set_start_method(options.start_method)
    # Each rank draws its own order; the weights are rank 0's, from the first update on.
    random.seed(options.seed + world.rank)
    np.random.seed(options.seed + world.rank)
    ranks.end_with_threads(world, prog)
    train(world, options, data)
    return 0


def communicator(world: MPI.Intracomm, options: Namespace, name: str = "") -> Any:
    """ChainerMN's communicator over all ranks: that of the options, or another one by name."""
    import chainermn

    exchange: dict[str, Any] = {"allreduce_grad_dtype": "float16"} if options.fp16_gradients else {}
    return chainermn.create_communicator(name or options.communicator, mpi_comm=world, **exchange)


def iterator(options: Namespace, dataset: Any, batchsize: int, **how: Any) -> Any:
    """Return an iterator with the workers asked for; ``loaderjob`` of ``None`` is Chainer's."""
    from chainer.iterators import MultiprocessIterator

    return MultiprocessIterator(
        dataset, batchsize, n_processes=options.loaderjob, n_prefetch=options.prefetch, **how
    )


def run(
    comm: Any,
    options: Namespace,
    *,
    iterators: tuple[Any, Any],
    network: Callable[[], Any],
    rule: Any,
    what: str,
) -> None:
    """Train and evaluate; rank 0 says ``what``, and how long it took.

    The iterators are over this rank's own share of the training and of the test examples; ``rule``
    is Chainer's optimizer.
    """
    import chainer
    import chainermn
    from chainer.links import Classifier
    from chainer.serializers import load_npz

    device = chainer.get_device(f"@cupy:{comm.intra_rank}" if options.gpu else "@numpy")
    device.use()
    model = Classifier(network())
    model.to_device(device)
    optimizer = chainermn.create_multi_node_optimizer(
        rule, comm, double_buffering=options.double_buffering
    )
    optimizer.setup(model)
    trainer = build_trainer(comm, options, iterators, device, optimizer)
    if options.resume is not None:
        # Until the epoch ends, all ranks take rank 0's order of examples.
        snapshot = options.resume.read_bytes() if comm.rank == 0 else None
        load_npz(io.BytesIO(comm.bcast_obj(snapshot)), trainer)
    if comm.rank == 0:
        loaders = options.loaderjob or f"{multiprocessing.cpu_count()} (default)"
        print(
            f"run: {options.length}, {comm.size} ranks, batch {options.batchsize}, {what}, "
            f"{'GPU' if options.gpu else 'CPU'}, {options.communicator}, loader jobs {loaders}",
            flush=True,
        )
    trainer.run()
    if comm.rank == 0:
        done, elapsed_s = trainer.updater.iteration, trainer.elapsed_time
        print(f"done: {done} iterations in {elapsed_s:.3f} s", flush=True)


def build_trainer(
    comm: Any, options: Namespace, iterators: tuple[Any, Any], device: Any, optimizer: Any
) -> Any:
    """Return a trainer with all its extensions.

    The Evaluator runs once an epoch, as in ChainerMN's examples, and at the end: a run shorter
    than an epoch has its figures, and the cost of the test iterator, too.
    """
    import chainermn
    from chainer.training import StandardUpdater, Trainer, extensions

    train, test = iterators
    updater = StandardUpdater(train, optimizer, device=device)
    trainer = Trainer(updater, options.length, out=str(options.out))
    evaluator = extensions.Evaluator(test, optimizer.target, device=device)
    trainer.extend(
        chainermn.create_multi_node_evaluator(evaluator, comm),
        trigger=interval_or_end((1, "epoch"), options.length),
    )
    if comm.rank == 0:
        # The inner trigger writes; `extend(LogReport(), trigger=...)` would leave it at an
        # epoch, and a shorter run without a log.
        trainer.extend(
            extensions.LogReport(
                trigger=interval_or_end(log_interval(options), options.length),
                postprocess=lambda entry: entry.update(epoch_detail=updater.epoch_detail),
            )
        )
        if options.snapshot_every or not options.benchmark:
            every = options.snapshot_every
            trainer.extend(
                extensions.snapshot(n_retains=2),
                trigger=(every, "iteration") if every else (1, "epoch"),
            )
        if not options.benchmark:  # as in ChainerMN's examples
            columns = ["epoch", "iteration", "main/loss", "validation/main/loss"]
            columns += ["main/accuracy", "validation/main/accuracy", "elapsed_time"]
            trainer.extend(extensions.DumpGraph("main/loss"))
            trainer.extend(extensions.PrintReport(columns))
            if sys.stdout.isatty():
                trainer.extend(extensions.ProgressBar())
    if ranks.live is not None:
        trainer.extend(ranks.live.ChainerExtension(partial(communicator, comm.mpi_comm, options)))
    return trainer


def interval_or_end(period: tuple[float, str], length: Length) -> Callable[[Any], bool]:
    """Return a trigger that fires at an interval and once more when the run's length is reached.

    Chainer's own stop trigger cannot be used: it keeps state and fires only once. A run may go on
    beyond its length, in a study that changes settings while it runs.
    """
    from chainer.training import get_trigger

    interval = get_trigger(period)
    reached = Namespace(before=False)

    def fires(trainer: Any) -> bool:
        updater = trainer.updater
        done = updater.iteration if length.unit == "iteration" else updater.epoch_detail
        ends = done >= length.number and not reached.before
        reached.before = done >= length.number
        return bool(interval(trainer)) or ends

    return fires
