"""The flags that all shipped trainers understand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

#: Iterations of a benchmark run: with 8 ranks on 2 cores a well-set launch takes about 5 s.
BENCHMARK_ITERATIONS = 25

#: Sweeps over the training data of a whole job, as in ChainerMN's own example.
JOB_EPOCHS = 20

COMMUNICATORS = ("naive", "flat", "non_cuda_aware", "pure_nccl", "dummy")
START_METHODS = ("fork", "forkserver", "spawn")


class WorkloadError(Exception):
    """Why a trainer does not start: one line for the user."""


@dataclass(frozen=True)
class Length:
    """How long to train: ``unit`` is ``iteration`` or ``epoch``, as in Chainer's triggers."""

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"


@dataclass(frozen=True)
class TrainerOptions:
    """What was asked for; ``loaderjob`` and ``start_method`` of ``None`` are the library's."""

    batchsize: int
    unit: int
    length: Length
    loaderjob: int | None
    prefetch: int
    communicator: str
    start_method: str | None
    seed: int
    gpu: bool
    fp16_gradients: bool
    double_buffering: bool
    out: Path
    cprofile: Path | None
    benchmark: bool
    log_writes: int


_LENGTHS = ("iterations", "epochs")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say so to the caller: the ranks of a job have to agree before any of them ends."""
        raise WorkloadError(f"{message} (see --help)")


def parse(prog: str, description: str, argv: Sequence[str]) -> TrainerOptions:
    """Read a command line.

    Raises:
        WorkloadError: An unknown flag, or a value that cannot be.
    """
    given = _parser(prog, description).parse_args(argv)
    if given.iterations is not None:
        length = Length(given.iterations, "iteration")
    elif given.epochs is not None:
        length = Length(given.epochs, "epoch")
    elif given.benchmark:
        length = Length(BENCHMARK_ITERATIONS, "iteration")
    else:
        length = Length(JOB_EPOCHS, "epoch")
    values = {name: value for name, value in vars(given).items() if name not in _LENGTHS}
    values["communicator"] = given.communicator or ("pure_nccl" if given.gpu else "naive")
    return TrainerOptions(length=length, **values)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _seed(text: str) -> int:
    value = int(text)
    # Each rank adds its number, and NumPy's seeds are 32 bits wide.
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not in 0..{2**31 - 1}")
    return value


# argparse names the type in "invalid ... value".
_positive.__name__ = _seed.__name__ = "integer"


def _parser(prog: str, description: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=prog,
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "-b",
        "--batchsize",
        type=_positive,
        default=100,
        metavar="N",
        help="examples per rank and iteration [100]",
    )
    add(
        "-u",
        "--unit",
        type=_positive,
        default=1000,
        metavar="N",
        help="units of each hidden layer [1000]",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "-i",
        "--iterations",
        "--iteration",
        type=_positive,
        metavar="N",
        help=f"updates to make [with --benchmark: {BENCHMARK_ITERATIONS}]",
    )
    length.add_argument(
        "-e",
        "--epochs",
        "--epoch",
        type=_positive,
        metavar="N",
        help=f"sweeps over the training data [{JOB_EPOCHS}]",
    )
    add(
        "-j",
        "--loaderjob",
        type=_positive,
        metavar="N",
        help="worker processes of each iterator [the library's default: one per CPU]",
    )
    add(
        "--prefetch",
        type=_positive,
        default=1,
        metavar="N",
        help="batches each iterator prepares ahead [1]",
    )
    add(
        "--communicator",
        choices=COMMUNICATORS,
        metavar="NAME",
        help=f"{', '.join(COMMUNICATORS)} [naive; with --gpu pure_nccl]",
    )
    add(
        "--start-method",
        choices=START_METHODS,
        metavar="NAME",
        help=f"how iterators start workers: {', '.join(START_METHODS)} [Python's default]",
    )
    add(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="of the weights, the data and their order [0]",
    )
    add("-g", "--gpu", action="store_true", help="train on GPUs, one per rank")
    add(
        "--fp16-gradients",
        action="store_true",
        help="exchange gradients in half precision (pure_nccl)",
    )
    add(
        "--double-buffering",
        action="store_true",
        help="exchange gradients while the next ones are computed (pure_nccl)",
    )
    add(
        "-o",
        "--out",
        type=Path,
        default=Path("result"),
        metavar="DIR",
        help="folder of the log [result]",
    )
    add("--cprofile", type=Path, metavar="DIR", help="profile each rank into DIR/rank-N.prof")
    add(
        "--benchmark",
        action="store_true",
        help="a short run with no extension but Evaluator and LogReport",
    )
    add(
        "--log-writes",
        type=_positive,
        default=20,
        metavar="N",
        help="how often a run writes its log, the end included [20]",
    )
    return parser
